package cupti

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/must"
)

// Two libraries with the same code, which come to lie at the same address.
const plugin = `
int cudaMalloc(void **, unsigned long);
int use(void);
int use(void)
{
	void *p;
	for (int i = 0; i < 10; i++)
		cudaMalloc(&p, 8);
	return NAME;
}
`

const reloader = `
#include <dlfcn.h>
#include <stdio.h>
int cudaMalloc(void **, unsigned long);
int main(int argc, char **argv)
{
	void *p, *at[2];
	int (*use)(void), sum = cudaMalloc(&p, 8);
	for (int i = 0; i < 2 && i + 1 < argc; i++) {
		void *h = dlopen(argv[i + 1], RTLD_NOW);
		if (!h)
			return 2;
		at[i] = *(void **)&use = dlsym(h, "use");
		sum += use();
		dlclose(h);
	}
	printf("same %d\n", at[0] == at[1]);
	return sum != 3;
}
`

// TestUnload opens a library in the place of another: no caller is that of the calls of both, and a call
// whose library was unloaded before its chain arrived has none.
func TestUnload(t *testing.T) {
	t.Parallel()
	built := must.Get(sim())(t)
	dir, lib := t.TempDir(), filepath.Join(built, "lib")
	build := func(out, source string, args ...string) string {
		file, out := filepath.Join(dir, out+".c"), filepath.Join(dir, out)
		must.Do(t, os.WriteFile(file, []byte(source), 0o600))
		args = append([]string{"-O2", "-o", out, file, filepath.Join(lib, "libcudart.so.13"), "-Wl,-rpath," + lib, "-ldl"}, args...)
		must.Run(t, exec.Command("gcc", args...))
		return out
	}
	first := build("first.so", plugin, "-shared", "-fPIC", "-DNAME=1")
	second := build("second.so", plugin, "-shared", "-fPIC", "-DNAME=2")
	s, seen := newSites(t, Options{}, GoConfig{Calls: []string{"cuMemAlloc"}, FlushInterval: time.Minute})
	stdout, stderr, code := s.run(t, play{build("reloader", reloader), []string{first, second}, nil})
	if code != 0 || stderr != "" {
		t.Fatalf("the program printed %q and ended with %d", stderr, code)
	}
	if stdout != "same 1\n" {
		t.Skipf("the second library does not lie where the first did: %q", stdout)
	}
	got := seen.callers["cuMemAlloc_v2"]
	for caller, calls := range got {
		if caller != 0 && calls > 10 {
			t.Errorf("caller %d is that of %d calls, a library makes 10: %v", caller, calls, got)
		}
	}
	if sum(got) != 21 {
		t.Errorf("callers of calls while a library was unloaded: %v", got)
	}
}

// closes notes the calls of dlclose that the injected library makes.
const closes = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int dlclose(void *handle)
{
	Dl_info by;
	int (*real)(void *);
	*(void **)&real = dlsym(RTLD_NEXT, "dlclose");
	if (dladdr(__builtin_return_address(0), &by) && strstr(by.dli_fname, "libcudatrace"))
		fprintf(stderr, "dlclose\n");
	return real(handle);
}
`

// TestClosesNothing has the library start without a dlclose: after one the recorder would have to look anew where the
// program's libraries lie.
func TestClosesNothing(t *testing.T) {
	t.Parallel()
	built := must.Get(sim())(t)
	source, preload := filepath.Join(t.TempDir(), "closes.c"), filepath.Join(t.TempDir(), "closes.so")
	must.Do(t, os.WriteFile(source, []byte(closes), 0o600))
	must.Run(t, exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", preload, source, "-ldl"))
	s, seen := newSites(t, Options{}, GoConfig{Calls: []string{"cuMemAlloc"}, FlushInterval: time.Minute})
	_, stderr, code := s.run(t, play{filepath.Join(built, "bin/vectoradd"), nil, []string{"LD_PRELOAD=" + preload}})
	if code != 0 || stderr != "" || sum(seen.callers["cuMemAlloc_v2"]) != 3 {
		t.Errorf("the program printed %q and ended with %d; callers %v", stderr, code, seen.callers)
	}
}
