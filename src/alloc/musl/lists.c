/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/musl/mallocng.h"

/*
 * Each descriptor is in a list exactly when it should be: free ones in one ring, groups with
 * free slots in the ring of their class. So a ring that was followed wrongly, or a descriptor
 * that was not found, shows. The slots of each class are counted by malloc, too.
 */

/* How far a ring has been followed. */
struct ring {
	struct ms_ng_context *c;
	ms_addr head;
	ms_addr at;
	ms_addr before; /* where one came from */
	uint64_t left;  /* steps until it has more members than there are descriptors */
};

static struct ring ring_from(struct ms_ng_context *c, ms_addr head)
{
	return (struct ring){ .c = c, .head = head, .at = head, .left = c->groups.n };
}

static struct ms_ng_group *broken(struct ring *ring)
{
	ms_proof_doubt(&ring->c->proof, MS_DOUBT_DAMAGED, "a list of descriptors breaks at 0x%llx",
	               (unsigned long long)ring->at);
	return NULL;
}

/* The ring's next member, or NULL: it is closed, or it was broken, which is noted. */
static struct ms_ng_group *next_of(struct ring *ring)
{
	bool begun = ring->before != 0;
	struct ms_ng_group *group;
	uint32_t index;

	if (!ring->at && !begun)
		return NULL;
	if (!ms_ng_index(ring->c, ring->at, &index))
		return broken(ring);
	group = &ring->c->groups.at[index];
	if (begun && group->previous != ring->before)
		return broken(ring);
	if (begun && ring->at == ring->head)
		return NULL;
	if (!ring->left--)
		return broken(ring);
	ring->before = ring->at;
	ring->at = group->next;
	return group;
}

static void follow_free(struct ms_ng_context *c)
{
	struct ring ring = ring_from(c, c->free_head);
	struct ms_ng_group *group;
	uint64_t n = 0;

	while ((group = next_of(&ring)) && !group->listed) {
		group->listed = true;
		n += !group->at;
	}
	c->n_free = (uint32_t)(c->groups.n - c->n_groups);
	if (group || n != c->n_free)
		ms_proof_doubt(&c->proof, MS_DOUBT_DISAGREES,
		               "%u descriptors are free, and %llu of them listed", c->n_free,
		               (unsigned long long)n);
}

static void follow_active(struct ms_ng_context *c, unsigned class)
{
	struct ring ring = ring_from(c, c->active[class]);
	struct ms_ng_group *group;

	while ((group = next_of(&ring))) {
		if (group->listed || !group->at || group->class != class) {
			ms_proof_doubt(&c->proof, MS_DOUBT_DAMAGED,
			               "the list of class %u has what does not belong there",
			               class);
			return;
		}
		group->listed = true;
	}
}

/* Each group in use is in a list if its links say so, and must be when it has a free slot. */
static void check_listed(struct ms_ng_context *c)
{
	const struct ms_ng_group *g;
	uint64_t n = 0;

	ms_vec_for_each (g, &c->groups)
		if (g->at)
			n += g->listed != (g->next != 0) ||
			     (!g->listed && (g->avail | g->freed) != 0);
	if (n)
		ms_proof_doubt(&c->proof, MS_DOUBT_DISAGREES,
		               "%llu groups are in no list, or in two", (unsigned long long)n);
}

/* malloc does not count the memory that the loader gave. */
static void check_usage(struct ms_ng_context *c)
{
	uint64_t slots[MS_NG_CLASS_NONE + 1] = { 0 };
	const struct ms_ng_group *g;

	ms_vec_for_each (g, &c->groups)
		if (g->at && g->freeable)
			slots[g->class] += g->last + UINT64_C(1);
	for (unsigned class = 0; class < MS_NG_CLASSES; class ++)
		if (slots[class] != c->usage[class])
			ms_proof_doubt(&c->proof, MS_DOUBT_DISAGREES,
			               "class %u has %llu slots, and malloc counts %llu", class,
			               (unsigned long long)slots[class],
			               (unsigned long long)c->usage[class]);
}

/* The first descriptor that was never used is where the number of those that are left says. */
static void check_unused(struct ms_ng_context *c)
{
	ms_addr begin = c->last_area + MS_NG_AREA_HEADER;
	uint64_t used = MS_NG_AREA_DESCRIPTORS - c->n_unused;

	if (c->unused != begin + used * MS_NG_DESCRIPTOR_BYTES)
		ms_proof_doubt(&c->proof, MS_DOUBT_DISAGREES,
		               "descriptors that were never used are not counted as they lie");
}

void ms_ng_check_lists(struct ms_ng_context *c)
{
	check_unused(c);
	follow_free(c);
	for (unsigned class = 0; class < MS_NG_CLASSES; class ++)
		follow_active(c, class);
	check_listed(c);
	check_usage(c);
}
