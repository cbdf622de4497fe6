// Package cudalib recognises CUDA's libraries among the files that processes have mapped:
// libcuda.so, a libcudart.so, a program or library with a runtime linked into it, a
// libcupti.so. A mapping goes in; out comes which library it is, with the places of its
// functions.
package cudalib

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/probe/elfsym"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// registration is the function with which a CUPTI client asks for buffers of records.
const registration = "cuptiActivityRegisterCallbacks"

// A File is one of CUDA's libraries. It is open while it is being probed.
type File struct {
	*os.File
	ID        procfs.FileID
	Path      string            // in the process's own mount namespace
	Side      cudaapi.Library   // of the API, if Functions is not nil
	Functions map[string]uint64 // file offsets by name; nil for a file without a side of the API
	// Registration is the file offset of CUPTI's function by which clients register, 0 in
	// other files.
	Registration uint64
}

// A Finder examines files. It remembers what it found in them, as the processes of one
// recording mostly map the same ones.
type Finder struct {
	mu    sync.Mutex
	files map[fileKey]symbols
}

type fileKey struct {
	device, inode uint64
	size          int64
	modified      time.Time
}

// symbols are the file offsets of a file's CUDA functions.
type symbols struct {
	driver, runtime map[string]uint64
	registration    uint64
}

// Open opens a mapped file if it is one of CUDA's; else it returns nil. A file that can't be
// read is an error only if its name says that it is one.
func (fd *Finder) Open(pid int, m procfs.Mapping) (*File, error) {
	f, err := m.Open(pid)
	if err != nil {
		return nil, relevant(m.Path, err)
	}
	found, err := fd.examine(f)
	if err != nil {
		return nil, errors.Join(relevant(m.Path, err), f.Close())
	}
	file := &File{File: f, ID: m.File, Path: m.Path, Registration: found.registration}
	if side, functions, ok := found.side(m.Path); ok {
		file.Side, file.Functions = side, functions
	}
	if file.Functions == nil && file.Registration == 0 {
		return nil, f.Close()
	}
	return file, nil
}

// relevant drops the errors of files that are not CUDA's by their name.
func relevant(path string, err error) error {
	base := filepath.Base(path)
	if !strings.HasPrefix(base, "libcuda.so") && !strings.HasPrefix(base, "libcudart") && !strings.HasPrefix(base, "libcupti") {
		return nil
	}
	return fmt.Errorf("no probes on %s: %w", path, err)
}

// examine returns the functions that an open file defines.
func (fd *Finder) examine(f *os.File) (symbols, error) {
	key, err := keyOf(f)
	if err != nil {
		return symbols{}, err
	}
	fd.mu.Lock()
	defer fd.mu.Unlock()
	if s, ok := fd.files[key]; ok {
		return s, nil
	}
	found, err := elfsym.Find(f, func(name string) bool { return name == registration || cudaapi.ByName(name) != nil })
	if err != nil {
		return symbols{}, err
	}
	if fd.files == nil {
		fd.files = map[fileKey]symbols{}
	}
	fd.files[key] = divide(found)
	return fd.files[key], nil
}

func keyOf(f *os.File) (fileKey, error) {
	info, err := f.Stat()
	if err != nil {
		return fileKey{}, err
	}
	if !info.Mode().IsRegular() {
		return fileKey{}, fmt.Errorf("%s is no regular file", f.Name())
	}
	st := info.Sys().(*syscall.Stat_t)
	return fileKey{device: st.Dev, inode: st.Ino, size: info.Size(), modified: info.ModTime()}, nil
}

// divide tells the functions of the driver, of the runtime and of CUPTI apart.
func divide(found map[string]uint64) symbols {
	s := symbols{driver: map[string]uint64{}, runtime: map[string]uint64{}}
	for name, offset := range found {
		if name == registration {
			s.registration = offset
		} else if cudaapi.ByName(name).Library == cudaapi.Runtime {
			s.runtime[name] = offset
		} else {
			s.driver[name] = offset
		}
	}
	return s
}

// side decides which side of the API a file is, by its name or by what it defines. ok is
// false for a file that is neither.
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
