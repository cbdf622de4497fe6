package cudaapi

import (
	"strings"
	"sync"
)

// Sources say where a recording has the begin, end, result and arguments of a function's calls.
//
// A probe on the function's entry gives the begin and the arguments, the one that End names the end, the result and
// what the call has filled in. Where CUPTI tells who calls, functions lose probes: begin, end and result are those of
// CUPTI's API record. As long as there is none, the begin is what its callback or the probe on the entry noted. Without
// a probe on the entry, the record of the GPU work has what the arguments say.
type Sources struct {
	Class  string // names such functions in docs/functions.md; "" for most
	End    End
	Record Purpose // of CUPTI's API records; only functions of the driver have some
	Left   Probes  // where CUPTI tells who calls
}

// Probes are those of a function that are left.
type Probes uint8

// The probes.
const (
	BothProbes Probes = iota
	EntryProbe        // for the arguments
	NoProbes
)

// An End is where the end of a probed call is seen.
type End uint8

// The ends. A return probe hides the program's frames from whoever unwinds during the call. But the kernel has to step
// a return instruction on x86-64, which costs 7 µs more on a virtual machine: too much for functions that a program
// calls every few microseconds, and that run no code of the program.
const (
	AtReturns End = iota // at return instructions, if these are known, else by a return probe
	ByReturnProbe
)

// A Purpose is what API records are made for.
type Purpose uint8

// The purposes.
const (
	NoPurpose  Purpose = iota // there are none
	ForWork                   // their correlation IDs name GPU work
	ForStreams                // they name the call that made a stream: only where functions lose probes
	ForPython                 // they have Python frames: only of programs with an interpreter
	ForRefused                // they tell of launches that never reach the driver's launch: only with --calls cupti
)

// sources has the sources of every function: those of the first row that holds it. Rows with API records hold
// functions of the driver.
var sources = []struct {
	Sources
	holds func(*Function, Traits) bool
}{
	// The arguments tell which graph is launched.
	{Sources{"graph launch", ByReturnProbe, ForWork, EntryProbe},
		func(_ *Function, t Traits) bool { return t.LaunchesGraph }},
	{Sources{"queued work", ByReturnProbe, ForWork, NoProbes},
		func(f *Function, _ Traits) bool { return f.GPUWork && f.queues() }},
	{Sources{"work", AtReturns, ForWork, NoProbes}, func(f *Function, _ Traits) bool { return f.GPUWork }},
	{Sources{"queued memory", ByReturnProbe, ForPython, BothProbes},
		func(f *Function, _ Traits) bool { return f.Allocating() && f.queues() }},
	{Sources{"memory", AtReturns, ForPython, BothProbes}, func(f *Function, _ Traits) bool { return f.Allocating() }},
	{Sources{"wait", AtReturns, ForPython, BothProbes}, func(_ *Function, t Traits) bool { return t.Waits != NoWait }},
	{Sources{"stream", AtReturns, ForStreams, BothProbes}, func(_ *Function, t Traits) bool { return t.MakesStream }},
	{Sources{"kernel lookup", AtReturns, ForRefused, BothProbes},
		func(f *Function, _ Traits) bool { return f.Name == "cuLibraryGetKernel" }},
	// cuBLAS does it at each launch of some kernels. The handle is of use with a launch's arguments alone.
	{Sources{"handle lookup", AtReturns, NoPurpose, NoProbes},
		func(f *Function, _ Traits) bool { return f.Naming == NamesByHandle }},
	{Sources{"queued", ByReturnProbe, NoPurpose, BothProbes}, func(f *Function, _ Traits) bool { return f.queues() }},
	{Sources{"", AtReturns, NoPurpose, BothProbes}, func(*Function, Traits) bool { return true }},
}

// queues reports whether a function hands something to a stream, as a program may do every few microseconds.
func (f *Function) queues() bool {
	return f.Category == "launch" || strings.Contains(f.Name, "Async") || strings.Contains(f.Name, "EventRecord") ||
		strings.Contains(f.Name, "StreamWaitEvent")
}

// Sources returns where the begin, end, result and arguments of the function's calls come from.
func (f *Function) Sources() *Sources {
	t := TraitsOf(f.Name)
	for i := range sources {
		s := &sources[i]
		if (f.Library == Driver || s.Record == NoPurpose) && s.holds(f, t) {
			return &s.Sources
		}
	}
	return nil
}

// RecordedFor lists the functions of which CUPTI makes API records for a purpose.
func RecordedFor(p Purpose) []string { return recordedFor()[p] }

var recordedFor = sync.OnceValue(func() map[Purpose][]string {
	names := map[Purpose][]string{}
	for i := range functions {
		f := &functions[i]
		p := f.Sources().Record
		names[p] = append(names[p], f.Name)
	}
	return names
})
