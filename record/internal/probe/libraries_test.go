package probe

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// Which side of the API a file is: by its name, and by what it defines.
func TestSide(t *testing.T) {
	for _, c := range []struct {
		path    string
		defines []string
		side    cudaapi.Library
		ok      bool
	}{
		{"/lib/libcuda.so.1", []string{"cuLaunchKernel", "cuInit"}, cudaapi.Driver, true},
		{"/lib/libcuda.so.1", []string{"cuInit"}, cudaapi.Driver, false},
		{"/lib/libcudart.so.13", []string{"cudaEventRecord"}, cudaapi.Runtime, true},
		{"/lib/libcudart.so.13", nil, cudaapi.Runtime, false},
		{"/bin/app", []string{"cudaMalloc"}, cudaapi.Runtime, true},
		{"/bin/app", []string{"cudaLaunchKernel"}, cudaapi.Runtime, true},
		{"/bin/app", []string{"cudaEventRecord"}, cudaapi.Runtime, false},
		{"/bin/app", []string{"cuLaunchKernel"}, cudaapi.Runtime, false}, // a program's own stub
	} {
		found := map[string]uint64{}
		for i, name := range c.defines {
			if cudaapi.ByName(name) != nil { // as Find asks for
				found[name] = uint64(i + 1)
			}
		}
		if side, functions, ok := divideSymbols(found).sideOf(c.path); ok != c.ok || ok && (side != c.side || len(functions) == 0) {
			t.Errorf("%s with %q: %v, %v, %v", c.path, c.defines, side, functions, ok)
		}
	}
}

func TestDivide(t *testing.T) {
	s := divideSymbols(map[string]uint64{registrationSymbol: 1, "cuLaunchKernel": 2, "cudaMalloc": 3})
	if s.registration != 1 || s.driver["cuLaunchKernel"] != 2 || s.runtime["cudaMalloc"] != 3 || len(s.driver)+len(s.runtime) != 2 {
		t.Errorf("divided into %+v", s)
	}
}

func rescan(t *testing.T, p *Prober, target *target, want bool) {
	t.Helper()
	changed, err := p.Rescan(target.pid)
	if err != nil || changed != want {
		t.Errorf("changed: %v, want %v (%v)", changed, want, err)
	}
}

// A runtime that comes late is probed at the next look, and takes over from the driver's functions.
func TestRescan(t *testing.T) {
	eachMode(t, func(t *testing.T, m attachMode) {
		p, target := open(t, Options{mode: m}), startTarget(t, "driver")
		rescan(t, p, target, false) // not attached
		first := attach(t, p, target)
		if len(first.Libraries) != 1 || !first.Has(cudaapi.Driver) || first.Has(cudaapi.Runtime) || !first.Libraries[0].New {
			t.Fatalf("before: %+v", first)
		}
		for range 2 * rescanEvery {
			rescan(t, p, target, false)
		}
		target.run("values", 0)
		target.run("loads", 0)
		rescan(t, p, target, true)
		rescan(t, p, target, false)
		// The kernel frees perf events a little after they are closed.
		must.Wait(t, func() bool {
			return !isProbed(t, target.pid, "cuStreamSynchronize")
		}, func() string { return "the driver's wait is still probed" })
		target.run("values", 0)
		again := attach(t, p, target)
		if len(again.Libraries) != 2 || !again.Has(cudaapi.Runtime) || again.Libraries[1].New {
			t.Errorf("attached: %+v", again)
		}
		if slices.ContainsFunc(again.Libraries[0].Functions, func(f *cudaapi.Function) bool { return f.Fallback }) {
			t.Error("the driver's functions are still probed in the runtime's place")
		}
		r := finish(t, p)
		if n := len(r.named("cuStreamSynchronize")); n != 2 {
			t.Errorf("%d waits, 2 were made before the runtime came", n)
		}
		if n := len(r.named("cuLaunchKernel")); n != 2 {
			t.Errorf("%d launches of 2", n)
		}
	})
}

func TestRescanFindsCUPTI(t *testing.T) {
	t.Parallel()
	var requests []uint64
	p := open(t, Options{Functions: launchesOnly(t), Paused: true, OnCUPTIClient: func(_ uint32, request, _ uint64) {
		requests = append(requests, request)
	}})
	target := startTarget(t, "driver")
	attach(t, p, target)
	target.run("registers", 100) // maps the library
	rescan(t, p, target, true)
	target.run("registers", 200)
	finish(t, p)
	goldentest.Same(t, []uint64{200}, requests, "registrations")
}

func TestRescanEnded(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{}), startTarget(t, "driver")
	attach(t, p, target)
	target.kill()
	if changed, err := p.Rescan(target.pid); changed || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("changed: %v, %v", changed, err)
	}
}

func TestNewFiles(t *testing.T) {
	file := func(n uint64) procfs.Mapping { return procfs.Mapping{File: procfs.FileID{Device: "fd:01", Inode: n}} }
	proc := &probedProcess{}
	for _, step := range []struct {
		mapped, fresh []uint64
	}{
		{[]uint64{1, 2}, []uint64{1, 2}}, {[]uint64{1, 2}, nil}, {[]uint64{1, 3}, []uint64{3}}, {[]uint64{1, 2, 3}, []uint64{2}},
	} {
		var mapped []procfs.Mapping
		for _, n := range step.mapped {
			mapped = append(mapped, file(n))
		}
		var fresh []uint64
		for _, m := range proc.newFiles(mapped) {
			fresh = append(fresh, m.File.Inode)
			proc.looked[m.File] = true
		}
		if diff := cmp.Diff(step.fresh, fresh); diff != "" {
			t.Errorf("mapped %v: %s", step.mapped, diff)
		}
	}
	proc.looked[procfs.FileID{Device: "fd:01", Inode: 2}] = false
	if fresh := proc.newFiles([]procfs.Mapping{file(2)}); len(fresh) != 0 {
		t.Error("a failed file is tried again by itself")
	}
	proc.forgetFailures()
	if fresh := proc.newFiles([]procfs.Mapping{file(2)}); len(fresh) != 1 {
		t.Error("a failed file is not tried again")
	}
}

// With perf events few functions are probed, those for GPU work and those that allocate among them.
func TestLimit(t *testing.T) {
	all := cudaapi.Functions(cudaapi.All)
	driver := slices.DeleteFunc(slices.Clone(all), func(f *cudaapi.Function) bool { return f.Library != cudaapi.Driver })
	kept, leftOut := mostImportant(driver, singleLimits[cudaapi.Driver])
	if len(kept) != singleLimits[cudaapi.Driver] || len(kept)+leftOut != len(driver) {
		t.Errorf("%d kept and %d left out of %d", len(kept), leftOut, len(driver))
	}
	for _, f := range driver {
		must := (f.GPUWork || f.Allocating()) && f.Name == f.Base() || f.Naming != cudaapi.NamesNothing || f.Range != cudaapi.NoRange
		if must && !slices.Contains(kept, f) {
			t.Errorf("%s is left out", f.Name)
		}
	}
	if !slices.IsSortedFunc(kept, func(a, b *cudaapi.Function) int { return int(a.ID) - int(b.ID) }) {
		t.Error("out of order")
	}
	if few, none := mostImportant(driver[:3], 3); len(few) != 3 || none != 0 {
		t.Errorf("%d of 3 are kept", len(few))
	}
}
