#include "out.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

void gs_send(void *message, uint32_t type, uint32_t size)
{
	struct gs_head *head = message;
	head->type = type;
	head->size = size;
	while (send(GS_SOCKET, message, size, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			_exit(0); /* nobody reads any more */
}

void gs_send_failed(uint32_t why, const char *text)
{
	struct gs_failed m = {.why = why};
	snprintf(m.text, sizeof m.text, "%s", text);
	gs_send(&m, GS_FAILED, sizeof m);
}
