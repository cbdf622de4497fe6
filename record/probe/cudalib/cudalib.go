// Package cudalib recognises CUDA's libraries among the files that processes have mapped:
// libcuda.so, libcudart.so, a program or library with a runtime linked into it, libcupti.so; and the
// injected library and the dynamic linker.
// Input: a mapping. Output: the kind of library and the file offsets of its functions.
package cudalib

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/elfsym"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// registration is the function by which a client registers with CUPTI, for buffers of records.
const registration = "cuptiActivityRegisterCallbacks"

// rangeBegins and rangeEnds are the injected library's functions that an NVTX range calls.
const (
	rangeBegins = "cudaTraceRangeBegins"
	rangeEnds   = "cudaTraceRangeEnds"
)

// listChanges is the function that glibc's dynamic linker calls, for debuggers, before and after it changes its list
// of libraries; list is the variable that describes the list. (musl's linker never unloads a library.)
const (
	listChanges = "_dl_debug_state"
	list        = "_r_debug"
)

// A File is one of CUDA's libraries, or the dynamic linker. It is open while it is being probed.
type File struct {
	*os.File
	ID        procfs.FileID
	Path      string            // in the process's own mount namespace
	Side      cudaapi.Library   // runtime or driver, if Functions is not nil
	Functions map[string]uint64 // file offsets by name; nil for a file that is neither
	// Registration is the file offset of the function by which clients register with CUPTI, 0
	// in other files.
	Registration uint64
	// RangeBegins and RangeEnds are the file offsets of the injected library's functions that an
	// NVTX range calls, 0 in other files.
	RangeBegins, RangeEnds uint64
	// ListChanges is the file offset of the dynamic linker's function that tells of changes to its list of
	// libraries, 0 in other files. List is how far behind that function the list's description lies in memory.
	ListChanges, List uint64
}

// A Finder examines files. It remembers what it found, because the processes of a recording
// mostly map the same files.
type Finder struct {
	mu    sync.Mutex
	files map[procfs.Content]symbols
}

// symbols are the file offsets of a file's CUDA functions.
type symbols struct {
	driver, runtime        map[string]uint64
	registration           uint64
	rangeBegins, rangeEnds uint64
	listChanges, list      uint64
}

// Open opens a mapped file if it is one of CUDA's libraries, else it returns nil. If the file
// cannot be read, that is an error only if the file has the name of such a library.
func (fd *Finder) Open(pid int, m procfs.Mapping) (*File, error) {
	f, err := m.Open(pid)
	if err != nil {
		return nil, relevant(m.Path, err)
	}
	found, err := fd.examine(f, isLinker(m.Path))
	if err != nil {
		return nil, errors.Join(relevant(m.Path, err), f.Close())
	}
	file := &File{File: f, ID: m.File, Path: m.Path, Registration: found.registration,
		RangeBegins: found.rangeBegins, RangeEnds: found.rangeEnds, ListChanges: found.listChanges, List: found.list}
	if side, functions, ok := found.side(m.Path); ok {
		file.Side, file.Functions = side, functions
	}
	if file.Functions == nil && file.Registration == 0 && file.RangeBegins == 0 && file.ListChanges == 0 {
		return nil, f.Close()
	}
	return file, nil
}

// isLinker reports whether a file is a dynamic linker, by its name: ld-linux-x86-64.so.2, or ld-2.31.so up to release
// 2.33.
func isLinker(path string) bool { return strings.HasPrefix(filepath.Base(path), "ld-") }

// relevant drops the error of a file that does not have the name of a CUDA library.
func relevant(path string, err error) error {
	base := filepath.Base(path)
	if !strings.HasPrefix(base, "libcuda.so") && !strings.HasPrefix(base, "libcudart") && !strings.HasPrefix(base, "libcupti") {
		return nil
	}
	return fmt.Errorf("no probes on %s: %w", path, err)
}

// examine returns the functions that an open file defines.
func (fd *Finder) examine(f *os.File, linker bool) (symbols, error) {
	key, err := procfs.ContentOf(f)
	if err != nil {
		return symbols{}, err
	}
	fd.mu.Lock()
	defer fd.mu.Unlock()
	if s, ok := fd.files[key]; ok {
		return s, nil
	}
	find := findCUDA
	if linker {
		find = findList
	}
	found, err := find(f)
	if err != nil {
		return symbols{}, err
	}
	if fd.files == nil {
		fd.files = map[procfs.Content]symbols{}
	}
	fd.files[key] = found
	return found, nil
}

// others are the functions that findCUDA finds beside CUDA's.
var others = map[string]bool{registration: true, rangeBegins: true, rangeEnds: true}

func findCUDA(f io.ReaderAt) (symbols, error) {
	found, err := elfsym.Find(f, func(name string) bool { return others[name] || cudaapi.ByName(name) != nil })
	return divide(found), err
}

func findList(f io.ReaderAt) (s symbols, err error) {
	offset, distance, ok, err := elfsym.Beside(f, listChanges, list)
	if ok {
		s.listChanges, s.list = offset, distance
	}
	return s, err
}

// divide separates the functions of the driver, the runtime and CUPTI.
func divide(found map[string]uint64) symbols {
	s := symbols{driver: map[string]uint64{}, runtime: map[string]uint64{}}
	for name, offset := range found {
		switch name {
		case registration:
			s.registration = offset
		case rangeBegins:
			s.rangeBegins = offset
		case rangeEnds:
			s.rangeEnds = offset
		default:
			if cudaapi.ByName(name).Library == cudaapi.Runtime {
				s.runtime[name] = offset
			} else {
				s.driver[name] = offset
			}
		}
	}
	return s
}

// side says whether a file is the runtime or the driver, by its name or else by its functions;
// ok is false if it is neither.
func (s symbols) side(path string) (side cudaapi.Library, functions map[string]uint64, ok bool) {
	base := filepath.Base(path)
	if strings.HasPrefix(base, "libcuda.so") {
		_, ok = s.driver["cuLaunchKernel"]
		return cudaapi.Driver, s.driver, ok
	}
	_, allocates := s.runtime["cudaMalloc"]
	_, launches := s.runtime["cudaLaunchKernel"]
	named := strings.HasPrefix(base, "libcudart") && len(s.runtime) > 0
	return cudaapi.Runtime, s.runtime, named || allocates || launches
}
