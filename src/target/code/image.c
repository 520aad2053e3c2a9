/* SPDX-License-Identifier: Apache-2.0 */
#include "target/code/image.h"

#include <unistd.h>

#include "base/page.h"
#include "engine/loaded/served.h"
#include "target/room.h"

/*
 * Unlike a read of /proc/PID/mem this does not hold the target's lock of mappings while a page
 * is waited for that a file system does not give: else the target's next mmap() would wait, too.
 */
static size_t read_running(const struct ms_image *image, ms_addr addr, void *buf, size_t len)
{
	size_t done = image->tid ? ms_room_read(image->tid, addr, buf, len) : 0;
	ssize_t n;

	/* It stops where the target may not read itself. */
	if (done == len || addr > INT64_MAX)
		return done;
	n = pread(image->mem_fd, (char *)buf + done, len - done, (off_t)(addr + done));
	return done + (n > 0 ? (size_t)n : 0);
}

static size_t read_image(const struct ms_image *image, ms_addr addr, void *buf, size_t len)
{
	if (image->effort && !ms_effort_take(image->effort, 1 + len / MS_PAGE_BYTES, 0))
		return 0;
	if (image->src)
		return ms_source_read(image->src, addr, buf, len);
	return read_running(image, addr, buf, len);
}

static size_t read_of_image(void *ctx, ms_addr addr, void *buf, size_t len)
{
	return read_image(ctx, addr, buf, len);
}

struct ms_reader ms_image_reader(struct ms_image *image)
{
	return (struct ms_reader){ read_of_image, image };
}

bool ms_image_read(const struct ms_image *image, ms_addr addr, void *buf, size_t len)
{
	return read_image(image, addr, buf, len) == len;
}

static bool open_image(ms_addr base, struct ms_image *ret)
{
	return ms_object_read(ms_image_reader(ret), base, MS_PAGE_BYTES, &ret->object);
}

bool ms_image_open(pid_t tid, int mem_fd, ms_addr base, struct ms_effort *effort,
                   struct ms_image *ret)
{
	ret->tid = tid;
	ret->mem_fd = mem_fd;
	ret->src = NULL;
	ret->effort = effort;
	return open_image(base, ret);
}

bool ms_image_open_in(struct ms_source *src, ms_addr base, struct ms_effort *effort,
                      struct ms_image *ret)
{
	ret->tid = 0;
	ret->mem_fd = -1;
	ret->src = src;
	ret->effort = effort;
	return open_image(base, ret);
}

bool ms_image_find(struct ms_image *image, const char *name, ms_addr *ret)
{
	const struct ms_reader from = ms_image_reader(image);
	const struct ms_object *object = &image->object;
	struct ms_dynamic dynamic;
	ms_addr at;

	if (!object->dynamic)
		return false;
	dynamic = ms_dynamic_read(from, object);
	at = ms_dynamic_function(from, &dynamic, name);
	if (!ms_range_has(object->span, at))
		return false;
	*ret = at;
	return true;
}

bool ms_image_find_code(struct ms_image *image, const char *name, struct ms_range *ret)
{
	const struct ms_reader from = ms_image_reader(image);
	const struct ms_object *object = &image->object;
	struct ms_dynamic dynamic;
	struct ms_range code;

	if (!object->dynamic)
		return false;
	dynamic = ms_dynamic_read(from, object);
	code = ms_dynamic_code(from, &dynamic, name);
	if (!ms_range_has(object->span, code.begin) || code.end > object->span.end)
		return false;
	*ret = code;
	return true;
}

bool ms_image_has_allocator(struct ms_image *image)
{
	/* Source: what libjemalloc.so.2, libtcmalloc*.so.4 and libmimalloc.so.2 export. */
	static const char *const own[] = { "mallctl", "je_mallctl", "_rjem_mallctl", "tc_malloc",
		                           "mi_malloc" };
	ms_addr at;

	if (!ms_image_find(image, "malloc", &at))
		return false;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (ms_image_find(image, own[i], &at))
			return true;
	return false;
}

bool ms_image_may_pass_on(struct ms_image *image)
{
	const struct ms_reader from = ms_image_reader(image);
	const struct ms_dynamic dynamic = ms_dynamic_read(from, &image->object);

	return ms_served_may_pass_on(from, &dynamic);
}

bool ms_image_is_program(struct ms_image *image)
{
	return ms_object_is_program(ms_image_reader(image), &image->object);
}

ms_addr ms_image_debug(struct ms_image *image)
{
	const struct ms_reader from = ms_image_reader(image);
	const struct ms_object *object = &image->object;

	return object->dynamic ? ms_dynamic_read(from, object).debug : 0;
}

bool ms_image_needs_others(struct ms_image *image)
{
	const struct ms_reader from = ms_image_reader(image);
	const struct ms_object *object = &image->object;

	return object->dynamic && ms_dynamic_read(from, object).needs;
}
