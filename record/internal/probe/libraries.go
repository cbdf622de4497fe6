package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// registrationSymbol is the function by which a client registers with CUPTI, for buffers of records.
const registrationSymbol = "cuptiActivityRegisterCallbacks"

// rangeBeginsSymbol and rangeEndsSymbol are the injected library's functions that an NVTX range calls.
const (
	rangeBeginsSymbol = "cudaTraceRangeBegins"
	rangeEndsSymbol   = "cudaTraceRangeEnds"
)

// listChangesSymbol is the function that glibc's dynamic linker calls, for debuggers, before and after it changes its
// list of libraries; listSymbol is the variable that describes the list. (musl's linker never unloads a library.)
const (
	listChangesSymbol = "_dl_debug_state"
	listSymbol        = "_r_debug"
)

// A libraryFile is one of CUDA's libraries among the files that a process has mapped (libcuda.so,
// libcudart.so, a program or library with a runtime linked into it, libcupti.so), or the injected
// library, or the dynamic linker. It is open while it is being probed.
type libraryFile struct {
	*os.File
	id        procfs.FileID
	path      string            // in the process's own mount namespace
	side      cudaapi.Library   // runtime or driver, if functions is not nil
	functions map[string]uint64 // file offsets by name; nil for a file that is neither
	librarySymbols
}

// librarySymbols are the file offsets of a file's functions; 0 for a function that it lacks.
type librarySymbols struct {
	driver, runtime        map[string]uint64   // CUDA's, by name
	returns                map[uint64][]uint64 // return instructions of functions, as far as they are known
	registration           uint64              // registrationSymbol
	rangeBegins, rangeEnds uint64              // rangeBeginsSymbol, rangeEndsSymbol
	listChanges            uint64              // listChangesSymbol
	list                   uint64              // how far behind listChanges the listSymbol lies in memory
}

// A libraryFinder examines files. It remembers what it found, because the processes of a recording
// mostly map the same files.
type libraryFinder struct {
	probes func(name string) bool // whether a function of CUDA may be probed

	mu    sync.Mutex
	files map[procfs.Content]librarySymbols
}

// open opens a mapped file if it is one of CUDA's libraries, else it returns nil. If the file
// cannot be read, that is an error only if the file has the name of such a library.
func (fd *libraryFinder) open(pid int, m procfs.Mapping) (*libraryFile, error) {
	f, err := m.Open(pid)
	if err != nil {
		return nil, relevantError(m.Path, err)
	}
	found, err := fd.examine(f, isLinker(m.Path))
	if err != nil {
		return nil, errors.Join(relevantError(m.Path, err), f.Close())
	}
	file := &libraryFile{File: f, id: m.File, path: m.Path, librarySymbols: found}
	if side, functions, ok := found.sideOf(m.Path); ok {
		file.side, file.functions = side, functions
	}
	if file.functions == nil && file.registration == 0 && file.rangeBegins == 0 && file.listChanges == 0 {
		return nil, f.Close()
	}
	return file, nil
}

// isLinker reports whether a file is a dynamic linker, by its name: ld-linux-x86-64.so.2, or ld-2.31.so up to release
// 2.33.
func isLinker(path string) bool { return strings.HasPrefix(filepath.Base(path), "ld-") }

// relevantError drops the error of a file that does not have the name of a CUDA library.
func relevantError(path string, err error) error {
	base := filepath.Base(path)
	if !strings.HasPrefix(base, "libcuda.so") && !strings.HasPrefix(base, "libcudart") &&
		!strings.HasPrefix(base, "libcupti") {
		return nil
	}
	return fmt.Errorf("no probes on %s: %w", path, err)
}

// examine returns the functions that an open file defines.
func (fd *libraryFinder) examine(f *os.File, linker bool) (librarySymbols, error) {
	key, err := procfs.ContentOf(f)
	if err != nil {
		return librarySymbols{}, err
	}
	fd.mu.Lock()
	defer fd.mu.Unlock()
	if s, ok := fd.files[key]; ok {
		return s, nil
	}
	find := fd.findCUDA
	if linker {
		find = findList
	}
	found, err := find(f)
	if err != nil {
		return librarySymbols{}, err
	}
	if fd.files == nil {
		fd.files = map[procfs.Content]librarySymbols{}
	}
	fd.files[key] = found
	return found, nil
}

// otherSymbols are the functions that findCUDA finds beside CUDA's.
var otherSymbols = map[string]bool{registrationSymbol: true, rangeBeginsSymbol: true, rangeEndsSymbol: true}

// findCUDA finds functions of CUDA, and the return instructions of those that may be probed: these are found by
// decoding all of a function's code.
func (fd *libraryFinder) findCUDA(f io.ReaderAt) (librarySymbols, error) {
	found, err := elfsym.Find(f, func(name string) bool { return otherSymbols[name] || cudaapi.ByName(name) != nil })
	s := divideSymbols(found)
	if err != nil || len(found) == 0 {
		return s, err
	}
	im, err := elfsym.Open(elfsym.InBlocks(f))
	if err != nil {
		return s, err
	}
	s.returns = map[uint64][]uint64{}
	for name, offset := range found {
		if address, ok := im.Address(offset); ok && (otherSymbols[name] || fd.probes(name)) {
			s.returns[offset] = returnsAt(im, address)
		}
	}
	return s, nil
}

// returnsAt lists the file offsets of the return instructions of the function at an address; none if they are not
// known.
func returnsAt(im *elfsym.Image, address uint64) []uint64 {
	returns := im.Returns(address)
	for i, at := range returns {
		returns[i], _ = im.Offset(at) // they are in the file
	}
	return returns
}

func findList(f io.ReaderAt) (s librarySymbols, err error) {
	offset, distance, ok, err := elfsym.Beside(f, listChangesSymbol, listSymbol)
	if ok {
		s.listChanges, s.list = offset, distance
	}
	return s, err
}

// divideSymbols separates the functions of the driver, the runtime and CUPTI.
func divideSymbols(found map[string]uint64) librarySymbols {
	s := librarySymbols{driver: map[string]uint64{}, runtime: map[string]uint64{}}
	for name, offset := range found {
		switch name {
		case registrationSymbol:
			s.registration = offset
		case rangeBeginsSymbol:
			s.rangeBegins = offset
		case rangeEndsSymbol:
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

// sideOf reports whether a file is the runtime or the driver, by its name or else by its functions;
// ok is false if it is neither.
func (s librarySymbols) sideOf(path string) (side cudaapi.Library, functions map[string]uint64, ok bool) {
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
