/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/retained/weights.h"

/*
 * What the blocks of a class retain together: no block is counted twice, so those count that
 * no other of the class dominates. A walk through the tree of dominators knows at each node
 * how many of each class stand above it.
 */

struct walk {
	struct ms_weights *w;
	uint32_t *first; /* of those that a node dominates immediately; 0: none */
	uint32_t *next;  /* with the same dominator */
};

static void link_tree(const struct walk *k)
{
	size_t bytes = ((size_t)k->w->d->n + 1) * sizeof(uint32_t);

	memset(k->first, 0, bytes);
	memset(k->next, 0, bytes);
	for (uint32_t i = k->w->d->n; i > 1; i--) {
		uint32_t above = k->w->d->idom[i];

		k->next[i] = k->first[above];
		k->first[above] = i;
	}
}

static struct ms_class *class_of(const struct ms_weights *w, uint32_t i)
{
	return w->class[i] == MS_CLASS_NONE ? NULL : &w->classes.at[w->class[i]];
}

static void enter(const struct ms_weights *w, uint32_t i)
{
	struct ms_class *class = class_of(w, i);

	if (!class || class->above++)
		return;
	class->retained_bytes += w->bytes[i];
	class->retained_count += w->count[i];
}

static void leave(const struct ms_weights *w, uint32_t i)
{
	struct ms_class *class = class_of(w, i);

	if (class)
		class->above--;
}

void ms_classes_weigh(struct ms_weights *w)
{
	const struct walk k = { w, w->spare[0], w->spare[1] };
	uint32_t i = 1;

	link_tree(&k);
	enter(w, i);
	while (i) {
		if (k.first[i]) {
			i = k.first[i];
			enter(w, i);
			continue;
		}
		for (; i && !k.next[i]; i = w->d->idom[i])
			leave(w, i);
		if (!i)
			break;
		leave(w, i);
		i = k.next[i];
		enter(w, i);
	}
}
