// SPDX-License-Identifier: Apache-2.0
// addon.js ADDON WORK: for each line of input, work with a native add-on for a while, then answer
const addon = require(process.argv[2]);
const text = 'export function f(a, b) { const c = a + b; return [a, b].map((q) => q == c) }\n'.repeat(200);
const works = {
  parse() { return addon.parseSync('a.js', text, {}).program; },
  transform() { return addon.transformSync(text, '{}'); },
  bundle() { return addon.transformSync('a.ts', text, {}); },
};
const kept = [];
let done = 0;
function work(until) {
  const burst = Date.now() + 20;
  do kept[done++ % 50] = works[process.argv[3]](); while (Date.now() < burst);
  if (Date.now() < until) setTimeout(work, 20, until);
  else console.log(done);
}
process.stdin.on('data', () => work(Date.now() + 2000));
console.log('ready');
