package probe

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// A probedProcess is a process that is being probed.
type probedProcess struct {
	files     map[procfs.FileID]*probedFile
	order     []procfs.FileID
	others    map[procfs.FileID]io.Closer // probes on functions of CUPTI, the injected library and the dynamic linker
	functions map[procfs.FileID]io.Closer // probes on functions of any library
	// looked has the files that were mapped at the last look; the value is false for a file
	// that could not be examined.
	looked map[procfs.FileID]bool
	code   codeSize
	execs  execs
	spares bool // Options.Spared have not all of their probes
}

// A probedFile is a library and its probes. The probes of fallback are on functions that are
// probed only in a process without a runtime: they go when a runtime appears.
type probedFile struct {
	library  Library
	probes   io.Closer // nil: none
	fallback io.Closer // nil: none
	launches io.Closer // on the runtime's launches, until one has reached the driver; nil: none
	signs    io.Closer // on the driver's launches, as long; nil where they are recorded
	entries  io.Closer // on the entries of Options.Spared; nil: none
	spared   io.Closer // on Options.Spared; nil: none
}

func newProcess() *probedProcess {
	return &probedProcess{files: map[procfs.FileID]*probedFile{}, others: map[procfs.FileID]io.Closer{},
		functions: map[procfs.FileID]io.Closer{}}
}

func (proc *probedProcess) hasRuntime() bool {
	for _, file := range proc.files {
		if file.library.Side == cudaapi.Runtime {
			return true
		}
	}
	return false
}

// probes lists all probes of the process.
func (proc *probedProcess) probes() []io.Closer {
	var probes []io.Closer
	for _, file := range proc.files {
		probes = append(probes, file.all()...)
	}
	for _, others := range []map[procfs.FileID]io.Closer{proc.others, proc.functions} {
		probes = slices.AppendSeq(probes, maps.Values(others))
	}
	return probes
}

// takeProbes lists all probes of the process, and leaves it with none.
func (proc *probedProcess) takeProbes() []io.Closer {
	probes, fresh := proc.probes(), newProcess()
	fresh.execs = proc.execs
	*proc = *fresh
	return probes
}

// all lists the file's probes.
func (file *probedFile) all() []io.Closer {
	all := []io.Closer{file.probes, file.fallback, file.launches, file.signs, file.entries, file.spared}
	return slices.DeleteFunc(all, func(p io.Closer) bool { return p == nil })
}

// dropFallback removes the probes that are only for a process without a runtime.
func (file *probedFile) dropFallback() error {
	if file.fallback == nil {
		return nil
	}
	err := file.fallback.Close()
	file.fallback = nil
	file.library.New = true
	file.library.Functions = slices.DeleteFunc(file.library.Functions, func(f *cudaapi.Function) bool {
		return f.Fallback
	})
	return err
}

// newFiles returns the files that were not mapped at the last look, and remembers all that are
// mapped.
func (proc *probedProcess) newFiles(mappings []procfs.Mapping) []procfs.Mapping {
	var found []procfs.Mapping
	looked := make(map[procfs.FileID]bool, len(mappings))
	for _, m := range mappings {
		examined, known := proc.looked[m.File]
		if !known {
			found = append(found, m)
		}
		looked[m.File] = examined
	}
	proc.looked = looked
	return found
}

// forgetFailures makes the next look try again the files that could not be examined.
func (proc *probedProcess) forgetFailures() {
	for id, examined := range proc.looked {
		if !examined {
			delete(proc.looked, id)
		}
	}
}

// An Attachment says what is probed in a process.
type Attachment struct {
	PID       int
	Libraries []Library // in the order of the process's mappings; empty if it has no CUDA library yet
}

// A Library is a file of a process that holds the runtime's or the driver's functions.
type Library struct {
	Path      string // in the process's own mount namespace
	Side      cudaapi.Library
	Functions []*cudaapi.Function // functions whose calls are probed, in the order of cudaapi's table
	Refused   []string            // functions that the kernel cannot probe, with its reason
	New       bool                // this call added probes
}

// attachment lists the probed libraries of the process.
func (proc *probedProcess) attachment(pid int) Attachment {
	a := Attachment{PID: pid}
	for _, id := range proc.order {
		l := proc.files[id].library
		l.Functions = slices.Clone(l.Functions)
		a.Libraries = append(a.Libraries, l)
	}
	return a
}

// A backgroundCloser closes probes in the background.
type backgroundCloser struct {
	closing sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// close closes probes, and then the channel.
func (b *backgroundCloser) close(probes ...io.Closer) (closed <-chan struct{}) {
	done := make(chan struct{})
	b.closing.Go(func() {
		defer close(done)
		err := closeTogether(probes)
		b.mu.Lock()
		b.err = errors.Join(b.err, err)
		b.mu.Unlock()
	})
	return done
}

// takeErrors returns the errors since the last call.
func (b *backgroundCloser) takeErrors() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.err
	b.err = nil
	return err
}
