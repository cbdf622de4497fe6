/* A stand-in for libcupti.so.13. */
#include <stddef.h>

int cuptiActivityRegisterCallbacks(void *request, void *complete)
{
	return request == NULL || complete == NULL;
}
