/* A program with Python in it, which it starts and ends several times, and that launches before, between and behind. */
#include <Python.h>

#include <pthread.h>
#include <stdio.h>

int cudaMalloc(void **, size_t);
int cudaMemset(void *, int, size_t);

static void *memory;

static PyObject *launch(PyObject *self, PyObject *args)
{
	(void)self, (void)args;
	Py_BEGIN_ALLOW_THREADS
	cudaMemset(memory, 0, 64);
	Py_END_ALLOW_THREADS
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"launch", launch, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "gpu", .m_size = -1, .m_methods = methods};

static PyObject *make_module(void)
{
	return PyModule_Create(&module);
}

static void *from_thread(void *arg)
{
	cudaMemset(memory, 0, 64); /* before it has a thread state */
	PyGILState_STATE held = PyGILState_Ensure();
	PyRun_SimpleString(arg);
	PyGILState_Release(held);
	cudaMemset(memory, 0, 64);
	return NULL;
}

int main(void)
{
	PyImport_AppendInittab("gpu", make_module);
	cudaMalloc(&memory, 4096);
	cudaMemset(memory, 0, 64);
	for (int i = 0; i < 8; i++) {
		pthread_t thread;
		char text[200], call[20]; /* functions of one life have names of their own, and lie where those of the last one lay */
		snprintf(text, sizeof text,
			 "import gpu\n"
			 "def work_%d(n):\n"
			 "    if n: return work_%d(n - 1)\n"
			 "    for _ in range(20): gpu.launch()\n"
			 "work_%d(30)\n",
			 i, i, i);
		snprintf(call, sizeof call, "work_%d(7)", i);
		Py_InitializeEx(0);
		PyRun_SimpleString(text);
		Py_BEGIN_ALLOW_THREADS
		pthread_create(&thread, NULL, from_thread, call);
		pthread_join(thread, NULL);
		cudaMemset(memory, 0, 64); /* has a thread state, without the GIL */
		Py_END_ALLOW_THREADS
		if (Py_FinalizeEx() != 0)
			return 4;
		cudaMemset(memory, 0, 64); /* has none any more */
	}
	puts("embedded");
	return 6;
}
