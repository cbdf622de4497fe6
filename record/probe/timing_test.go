package probe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// BenchmarkAttach measures probing and releasing a process that has every driver
// function of the table.
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
	if out, err := gcc.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, m := range []Mode{ModeSession, ModeMulti, ModeSingle} {
		p := open(b, Options{Mode: m})
		target := startTarget(b, "static", "LD_PRELOAD="+library)
		b.Run(m.String()+"/attach+detach", func(b *testing.B) {
			for b.Loop() {
				attach(b, p, target)
				if err := p.Detach(target.pid); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		open(b, Options{})
	}
}

// BenchmarkSymbols measures the search of the largest executable around, this test.
func BenchmarkSymbols(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(self)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	for b.Loop() {
		if _, err := findSymbols(f, func(name string) bool { return cudaapi.ByName(name) != nil }); err != nil {
			b.Fatal(err)
		}
	}
}
