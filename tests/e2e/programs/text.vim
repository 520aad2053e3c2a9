" SPDX-License-Identifier: Apache-2.0
call setline(1, map(range(1, 3000), 'printf("line %d of the text", v:val)'))
%s/line \(\d\+\)/\1 LINE/g
g/7/normal! ddGp
let d = {}
for i in range(2000) | let d['k' . i] = repeat('v', i % 50) | endfor
call append('$', string(len(join(values(d), ''))))
silent! undo
silent! redo
%!sort -n
call system('echo child')
write! out.txt
qall!
