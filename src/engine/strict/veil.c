/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/strict/veil.h"

/* The first hidden range that ends behind @addr is at this index. */
static size_t first_behind(const struct ms_veil *veil, ms_addr addr)
{
	return ms_range_search(veil->hidden->at, veil->hidden->n, sizeof(*veil->hidden->at), addr);
}

static size_t veil_read(struct ms_source *src, ms_addr addr, void *buf, size_t len)
{
	const struct ms_veil *veil = (const struct ms_veil *)src;
	size_t got = ms_source_read(veil->behind, addr, buf, len);
	const struct ms_range all = { addr, addr + got };

	for (size_t i = first_behind(veil, addr);
	     i < veil->hidden->n && veil->hidden->at[i].begin < all.end; i++) {
		struct ms_range hidden = ms_range_common(veil->hidden->at[i], all);

		memset((char *)buf + (hidden.begin - addr), 0, (size_t)ms_range_len(hidden));
	}
	return got;
}

static const void *veil_view(struct ms_source *src, ms_addr addr, size_t len)
{
	const struct ms_veil *veil = (const struct ms_veil *)src;
	size_t i = first_behind(veil, addr);

	if (i < veil->hidden->n && veil->hidden->at[i].begin < addr + len)
		return NULL;
	return ms_source_view(veil->behind, addr, len);
}

static bool veil_present(struct ms_source *src, struct ms_range within, struct ms_range *ret)
{
	return ms_source_present(((const struct ms_veil *)src)->behind, within, ret);
}

/* The other belongs to somebody else. */
static void veil_close(struct ms_source *src)
{
	(void)src;
}

static const struct ms_source_ops ops = { .name = "veil",
	                                  .read = veil_read,
	                                  .view = veil_view,
	                                  .present = veil_present,
	                                  .close = veil_close };

void ms_veil_open(struct ms_veil *veil, struct ms_source *src, const struct ms_ranges *hidden)
{
	*veil = (struct ms_veil){ .base = *src, .behind = src, .hidden = hidden };
	veil->base.ops = &ops;
}
