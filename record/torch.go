package record

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A PyTorchSource says when the operators of PyTorch are recorded that calls are made in.
type PyTorchSource string

// The values of a PyTorchSource. An operator costs the program about 0.4 µs while it is recorded, mostly PyTorch's own
// work for whoever observes it.
const (
	PyTorchAuto PyTorchSource = "auto" // for torchFirst, then for torchPart of each torchEvery
	PyTorchOn   PyTorchSource = "on"
	PyTorchOff  PyTorchSource = "off"
)

// The times in which PyTorchAuto records operators, of those in which the process makes calls.
const (
	torchFirst = 5 * time.Second
	torchPart  = time.Second
	torchEvery = 10 * time.Second
)

// A torch is what is known of PyTorch in a process. Whoever looks at the process owns it.
type torch struct {
	found  *cupti.Torch
	on     bool
	calls  uint64        // that had come by the last look
	active time.Duration // in which calls have come
	came   time.Time     // when some had come last
	last   time.Time     // when the last look was
	code   codeWatch

	memory memoryLook
}

// readsOperators reports whether operators are recorded in processes with PyTorch.
func (s *session) readsOperators() bool {
	return (s.opts.PyTorch == PyTorchAuto || s.opts.PyTorch == PyTorchOn) && s.opts.withoutOperators() == ""
}

// withoutOperators returns why no process of a recording can have operators; "" if some can.
func (o *Options) withoutOperators() string {
	if len(o.PIDs) > 0 {
		return "only programs that record starts itself have them"
	}
	return o.withoutPython()
}

// remarkOperators says why no process can have operators, to a person who has asked for them.
func (s *session) remarkOperators() {
	if why := s.opts.withoutOperators(); why != "" && s.opts.PyTorch == PyTorchOn {
		s.report.remark(0, "PyTorch's operators are not recorded: "+why)
	}
}

var torchLibrary = regexp.MustCompile(`^libtorch_cpu[-.].*so[.0-9]*$`)

// findTorch finds PyTorch's functions in a process, nil if it has none that are known.
func findTorch(pid uint32) *cupti.Torch {
	mapped, err := procfs.CodeFiles(int(pid))
	if err != nil {
		return nil // it has ended
	}
	for _, m := range mapped {
		if !torchLibrary.MatchString(filepath.Base(m.Path)) {
			continue
		}
		if t := examineTorch(pid, m); t != nil {
			return t
		}
	}
	return nil
}

// examineTorch looks PyTorch's functions up in a file that a process has mapped. One that cannot be read has none.
func examineTorch(pid uint32, m procfs.Mapping) *cupti.Torch {
	f, err := m.Open(int(pid))
	if err != nil {
		return nil
	}
	defer f.Close()
	image, err := elfsym.Open(f)
	if err != nil {
		return nil
	}
	symbols, err := image.Exports(cupti.TorchNames()...)
	bias, known := image.Bias(m.From, m.Offset)
	if err != nil || !known {
		return nil
	}
	return cupti.TorchAt(func(name string) uint64 {
		if at := symbols[name].From; at != 0 {
			return bias + at
		}
		return 0
	})
}

// lookAtTorch looks at a process that may have opened PyTorch since the last look, and switches its operators on and off.
func (s *session) lookAtTorch(pid uint32, t *torch) {
	if !s.readsOperators() {
		return
	}
	now := time.Now()
	if t.found == nil && t.code.changed(pid, codeLook) {
		if t.found, t.last = findTorch(pid), now; t.found != nil {
			t.found.Spans = s.opts.PyTorchSpans
		}
	}
	if t.found == nil {
		return
	}
	if calls := s.server.Calls(pid); calls != t.calls {
		t.calls, t.came = calls, now
	}
	if now.Sub(t.came) < 2*maxHandover { // for which the process keeps records
		t.active += now.Sub(t.last)
	}
	t.last = now
	if on := s.opts.PyTorch == PyTorchOn || inTorchPart(t.active); on != t.on {
		t.on = on
		s.server.SetTorch(pid, t.found, on)
	}
}

// maxGenerated bounds a file that PyTorch's compiler has generated. One of a large model has a few MB.
const maxGenerated = 32 << 20

// readGenerated reads a file that PyTorch's compiler has generated for a process. It notes why one cannot be read. Files of
// the recorder's own stand in for those of a process that has ended: their names are hashes of their contents.
func (s *session) readGenerated(pid uint32, file string) []byte {
	text, err := procfs.ReadFile(int(pid), file, maxGenerated)
	if err != nil {
		text, err = procfs.ReadFile(os.Getpid(), file, maxGenerated)
	}
	if err != nil {
		s.report.note(pid, tracelog.NoteInfo, fmt.Sprintf("operators of compiled kernels are not known: %s: %v", filepath.Base(file), err))
		return nil
	}
	return text
}

// inTorchPart reports whether PyTorchAuto records operators in a process that has been active for so long.
func inTorchPart(active time.Duration) bool {
	return active < torchFirst || active%torchEvery < torchPart
}
