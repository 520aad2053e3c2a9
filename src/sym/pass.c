/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/pass.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* As much as one descriptor takes, at an address that fits the header. */
union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

bool ms_pass_send(int channel, const void *bytes, size_t len, int fd)
{
	/* It is not written through. NOLINTNEXTLINE(performance-no-int-to-ptr) */
	struct iovec data = { (void *)(uintptr_t)bytes, len };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	union control control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
		                              .cmsg_level = SOL_SOCKET,
		                              .cmsg_type = SCM_RIGHTS } };
	ssize_t n;

	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
	}
	do {
		n = sendmsg(channel, &message, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (fd >= 0)
		(void)close(fd);
	return n == (ssize_t)len;
}

bool ms_pass_receive(int channel, void *bytes, size_t len, int *ret_fd)
{
	struct iovec data = { bytes, len };
	union control control;
	struct msghdr message = { .msg_iov = &data,
		                  .msg_iovlen = 1,
		                  .msg_control = ret_fd ? control.bytes : NULL,
		                  .msg_controllen = ret_fd ? sizeof(control.bytes) : 0 };
	const struct cmsghdr *header;
	int fd = -1;
	ssize_t n;

	do {
		n = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	header = n > 0 && ret_fd ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	if (n != (ssize_t)len || message.msg_flags & MSG_TRUNC) {
		if (fd >= 0)
			(void)close(fd);
		return false;
	}
	if (ret_fd)
		*ret_fd = fd;
	return true;
}
