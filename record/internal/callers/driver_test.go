package callers

import (
	"os"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// driverFunctions are a known function of the driver, and one that nobody knows.
const driverFunctions = `
__attribute__((noinline, visibility("hidden"))) int inner(int n)
{
	__asm__ volatile("");
	return n;
}
int cuCtxSynchronize(void) { return inner(1) + 1; }
int cuOfNobody(void) { return inner(2) + 2; }`

// A function is named from an address in it, if the file is the driver, even when the process has ended.
func TestDriverFunction(t *testing.T) {
	t.Parallel()
	b := &bench{dir: t.TempDir(), TB: t}
	source := b.path("functions.c")
	must.Do(t, os.WriteFile(source, []byte(driverFunctions), 0o644))
	for _, file := range []string{"libcuda.so.1", "libother.so.1"} {
		path := b.path(file)
		b.gcc("-shared", "-fPIC", "-o", path, source)
		l, m, pid := newLog(t), reserve(t), os.Getpid()
		m.show(path)
		known, unknown := m.returnAddress(path, "cuCtxSynchronize"), m.returnAddress(path, "cuOfNobody")
		if got := l.driverFunction(pid, l.epoch, known); got != "" {
			t.Errorf("%s: the process has not been looked at, but has %q", file, got)
		}
		l.look(pid)
		m.hide(0)
		want := map[string]string{"libcuda.so.1": "cuCtxSynchronize"}[file]
		if got := l.driverFunction(pid, l.epoch, known); got != want {
			t.Errorf("%s: in %q, want %q", file, got, want)
		}
		for _, address := range []uint64{unknown, uint64(uintptr(m.base)), 0, 1, ^uint64(0)} {
			if got := l.driverFunction(pid, l.epoch, address); got != "" {
				t.Errorf("%s: in %q at %#x", file, got, address)
			}
		}
	}
}
