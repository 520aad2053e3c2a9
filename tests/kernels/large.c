/* SPDX-License-Identifier: Apache-2.0 */
/* large: 200 MB of blocks that are kept, and 50 of 2040 bytes that are not; see truth.h. */
#include "truth.h"

enum { KEPT = 3200, BYTES = 65536, LOST = 50, LOST_BYTES = 2040 };

void *volatile kept[KEPT];

int main(void)
{
	for (int i = 0; i < KEPT; i++)
		memset(kept[i] = fresh(BYTES), 1, BYTES);
	for (int i = 0; i < LOST; i++)
		leak(LOST_BYTES);
	forget();
	say_text("READY\n");
	while (getchar() >= 0)
		;
	return 0;
}
