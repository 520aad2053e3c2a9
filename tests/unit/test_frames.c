/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/elf/frames.h"

/* Only one value of each is known; 0xff says that there is no table. */
Test(frames, a_table_is_searched_by_halves_only_where_each_encoding_is_the_usual)
{
	const struct ms_frame_header usual = { MS_FRAME_VERSION, MS_FRAME_PCREL_SDATA4,
		                               MS_FRAME_UDATA4,  MS_FRAME_DATAREL_SDATA4,
		                               .frame = 0x1000,  .count = 1 };
	uint8_t bytes[sizeof(usual)];
	struct ms_frame_header header;

	memcpy(bytes, &usual, sizeof(usual));
	for (size_t i = 0; i < offsetof(struct ms_frame_header, frame); i++) {
		const uint8_t wanted = bytes[i];

		for (unsigned value = 0; value <= UINT8_MAX; value++) {
			bytes[i] = (uint8_t)value;
			memcpy(&header, bytes, sizeof(header));
			cr_assert_eq(ms_frame_is_searchable(&header), value == wanted,
			             "byte %zu is %#x", i, value);
		}
		bytes[i] = wanted;
	}
}
