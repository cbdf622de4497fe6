package probe

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/must"
)

// BenchmarkAttach measures probing and releasing a process that has every driver
// function of the table (single perf events: the launches).
func BenchmarkAttach(b *testing.B) {
	var code strings.Builder
	n := 0
	for _, f := range cudaapi.Functions(cudaapi.All) {
		if f.Library == cudaapi.Driver {
			fmt.Fprintf(&code, "int %s(void) { return %d; }\n", f.Name, n)
			n++
		}
	}
	dir := b.TempDir()
	library := filepath.Join(dir, "libcuda.so.1")
	gcc := exec.Command("gcc", "-shared", "-fPIC", "-fno-omit-frame-pointer", "-w", "-o", library, "-x", "c", "-")
	gcc.Stdin = strings.NewReader(code.String())
	must.Run(b, gcc)
	for _, m := range []attachMode{modeMulti, modeSingle} {
		functions := cudaapi.Functions(cudaapi.All)
		if m == modeSingle { // tens of milliseconds a probe
			functions = cudaapi.Functions(cudaapi.Minimal)
		}
		p := open(b, Options{mode: m, Functions: functions})
		target := startTarget(b, "static", "LD_PRELOAD="+library)
		b.Run(m.String(), func(b *testing.B) {
			var detaching time.Duration
			for b.Loop() {
				attach(b, p, target)
				start := time.Now()
				must.Do(b, p.Detach(target.pid))
				detaching += time.Since(start)
			}
			b.ReportMetric(float64(detaching.Milliseconds())/float64(b.N), "ms-detaching")
		})
	}
}

// BenchmarkOpen measures loading the program, with buffers of the default size.
func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		p := open(b, Options{BufferBytes: defaultBufferBytes})
		must.Do(b, p.Close())
	}
}
