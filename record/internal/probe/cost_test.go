package probe

import (
	"io"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// discard is a Sink that only counts.
type discard struct{ calls int }

func (d *discard) Call(*tracelog.Call)            { d.calls++ }
func (*discard) Thread(*tracelog.Thread)          {}
func (*discard) Symbol(*tracelog.Symbol)          {}
func (*discard) Chain(*Chain)                     {}
func (*discard) Function(*tracelog.FunctionEvent) {}

// A variant is something whose cost for each call is measured.
type variant struct {
	name string
	on   func(pid int) (off func())
}

// BenchmarkCall measures what a traced call of cuLaunchKernel costs the program, next
// to the floor: the same traps with programs that return at once. The variants take
// turns on one process, in changing order, and the medians are reported.
func BenchmarkCall(b *testing.B) {
	const calls = 50_000
	t := startTarget(b, "driver")
	variants := []variant{{"plain", func(int) func() { return func() {} }}}
	for _, m := range []attachMode{modeMulti, modeSingle} {
		variants = append(variants, recording(b, m))
	}
	variants = append(variants, floors(b)...)
	times := make([][]float64, len(variants))
	for round := 0; b.Loop(); round++ {
		for i := range variants {
			i = (i + round) % len(variants)
			off := variants[i].on(t.pid)
			ns, err := strconv.Atoi(t.run("timing", calls))
			off()
			if err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], float64(ns)/float64(calls))
		}
	}
	for i, v := range variants {
		slices.Sort(times[i])
		b.ReportMetric(times[i][len(times[i])/2], v.name+"-ns")
	}
	b.ReportMetric(0, "ns/op")
}

func recording(b *testing.B, m attachMode) variant {
	p := open(b, Options{mode: m, BufferBytes: 64 << 20, Functions: cudaapi.Functions(cudaapi.Minimal)})
	return variant{m.String(), func(pid int) func() {
		must.Get(p.Attach(pid))(b)
		return func() {
			must.Do(b, p.Detach(pid))
			takeCalls(b, p)
		}
	}}
}

// takeCalls empties the buffers, in which there are calls.
func takeCalls(b *testing.B, p *Prober) {
	var d discard
	if err := p.Drain(&d); err != nil || d.calls == 0 {
		b.Fatal(d.calls, err)
	}
}

// floors are the variants with empty programs.
func floors(b *testing.B) []variant {
	c, err := loadPart(objectPart{maps: []string{}, programs: []string{bpf.ProbesProgEmptyMulti}})
	if err != nil {
		b.Skip("this kernel has no uprobe_multi: ", err)
	}
	b.Cleanup(c.Close)
	dir := must.Get(builds())(b)
	path := dir + "/libcuda.so.1"
	sites := []probeSite{{offset: launchOffset(b, path)}}
	enter := siteProgram{c.Programs[bpf.ProbesProgEmptyMulti], modeMulti}
	floor := func(name string, attach func(pid int) (io.Closer, error)) variant {
		return variant{"floor-" + name, func(pid int) func() {
			probes := must.Get(attach(pid))(b)
			return func() { probes.Close() }
		}}
	}
	return []variant{
		floor("pair", func(pid int) (io.Closer, error) {
			return attachCalls(enter, path, sites, pid)
		}),
		floor("enter", func(pid int) (io.Closer, error) {
			return attachHere(enter, path, sites, pid)
		}),
	}
}

func launchOffset(tb testing.TB, path string) uint64 {
	tb.Helper()
	f := must.Get(os.Open(path))(tb)
	defer f.Close()
	symbols, err := elfsym.Find(f, func(name string) bool { return name == "cuLaunchKernel" })
	if err != nil || symbols["cuLaunchKernel"] == 0 {
		tb.Fatal(symbols, err)
	}
	return symbols["cuLaunchKernel"]
}
