# SPDX-License-Identifier: Apache-2.0
"""Five hundred threads at once, each with blocks of its own."""

import threading

threading.stack_size(256 << 10)
barrier = threading.Barrier(501)
sums = [0] * 500


def work(n):
    barrier.wait()
    sums[n] = sum(len(str(i) * n) for i in range(40))
    barrier.wait()


threads = [threading.Thread(target=work, args=(n,)) for n in range(500)]
for thread in threads:
    thread.start()
barrier.wait()
barrier.wait()
for thread in threads:
    thread.join()
print(sum(sums))
