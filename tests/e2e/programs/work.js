// SPDX-License-Identifier: Apache-2.0
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { spawnSync } = require('child_process');
const crypto = require('crypto'), zlib = require('zlib'), fs = require('fs');

function hot(n) {
  let h = crypto.createHash('sha256'), sum = 0;
  for (let i = 0; i < 60000; i++) { h.update(String(i * n)); sum = (sum * 31 + i * n) | 0; }
  return h.digest('hex').slice(0, 16) + sum;
}

if (!isMainThread) {
  parentPort.postMessage(hot(workerData));
} else {
  if (process.env.SIGNAL) process.kill(process.pid, Number(process.env.SIGNAL));
  const one = n => new Promise((done, failed) => {
    const worker = new Worker(__filename, { workerData: n });
    worker.on('message', done); worker.on('error', failed);
  });
  (async () => {
    console.log((await Promise.all([1, 2, 3].map(one))).join(' '));
    const buffers = [];
    for (let i = 0; i < 200; i++) buffers.push(Buffer.alloc(i * 1000, i & 255));
    const packed = zlib.gzipSync(Buffer.concat(buffers));
    console.log(zlib.gunzipSync(packed).length, crypto.createHash('md5').update(Buffer.concat(buffers)).digest('hex'));
    console.log(spawnSync('sh', ['-c', 'echo child; exit 3']).status);
    await fs.promises.writeFile('out.txt', 'x'.repeat(100000));
    console.log((await fs.promises.readFile('out.txt')).length);
    process.exitCode = 7;
  })();
}
