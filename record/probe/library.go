package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// A Library is a file that holds a side of CUDA's API: libcuda.so, a libcudart.so,
// or a program or library with a runtime linked into it.
type Library struct {
	Path      string // in the process's own mount namespace
	Side      cudaapi.Library
	Functions []*cudaapi.Function // those probed, in table order
	Refused   []string            // those that the kernel can't probe, with its reason
	New       bool                // something was added by this call
}

// A symbolCache keeps what was found in files, as the processes of one recording
// mostly map the same ones.
type symbolCache struct {
	mu    sync.Mutex
	files map[symbolKey]symbolSet
}

type symbolKey struct {
	device, inode uint64
	size          int64
	modified      time.Time
}

// A symbolSet is the file offsets of CUDA functions in a file.
type symbolSet struct {
	driver, runtime map[string]uint64
	watched         uint64 // CUPTI's function that clients register with, 0 elsewhere
}

// lookup returns the CUDA functions that an open file defines.
func (c *symbolCache) lookup(f *os.File) (symbolSet, error) {
	key, err := keyOf(f)
	if err != nil {
		return symbolSet{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if set, ok := c.files[key]; ok {
		return set, nil
	}
	found, err := findSymbols(f, func(name string) bool { return name == watchedFunction || cudaapi.ByName(name) != nil })
	if err != nil {
		return symbolSet{}, err
	}
	set := symbolSet{driver: map[string]uint64{}, runtime: map[string]uint64{}}
	for name, offset := range found {
		if name == watchedFunction {
			set.watched = offset
		} else if cudaapi.ByName(name).Library == cudaapi.Runtime {
			set.runtime[name] = offset
		} else {
			set.driver[name] = offset
		}
	}
	if c.files == nil {
		c.files = map[symbolKey]symbolSet{}
	}
	c.files[key] = set
	return set, nil
}

func keyOf(f *os.File) (symbolKey, error) {
	info, err := f.Stat()
	if err != nil {
		return symbolKey{}, err
	}
	if !info.Mode().IsRegular() {
		return symbolKey{}, fmt.Errorf("%s is no regular file", f.Name())
	}
	st := statOf(info)
	return symbolKey{device: st.Dev, inode: st.Ino, size: info.Size(), modified: info.ModTime()}, nil
}

// identify decides which side of the API a mapped file is, by its name or by what it
// defines. ok is false for a file that is neither.
func identify(path string, set symbolSet) (side cudaapi.Library, symbols map[string]uint64, ok bool) {
	base := filepath.Base(path)
	if strings.HasPrefix(base, "libcuda.so") {
		_, ok = set.driver["cuLaunchKernel"]
		return cudaapi.Driver, set.driver, ok
	}
	_, allocates := set.runtime["cudaMalloc"]
	_, launches := set.runtime["cudaLaunchKernel"]
	named := strings.HasPrefix(base, "libcudart") && len(set.runtime) > 0
	return cudaapi.Runtime, set.runtime, named || allocates || launches
}

// libraryOf opens a mapped file and says what it is. A file that is no CUDA library
// gives nil; so does one that can't be read, unless its name says that it matters.
func (p *Prober) libraryOf(pid int, m procfs.Mapping) (*openLibrary, error) {
	f, err := m.Open(pid)
	if err != nil {
		return nil, relevant(m.Path, err)
	}
	set, err := p.symbols.lookup(f)
	if err != nil {
		return nil, errors.Join(relevant(m.Path, err), f.Close())
	}
	l := &openLibrary{file: f, id: m.File, path: m.Path, watched: set.watched}
	if side, symbols, ok := identify(m.Path, set); ok {
		l.side, l.symbols = side, symbols
	}
	if l.symbols == nil && l.watched == 0 {
		return nil, f.Close()
	}
	return l, nil
}

// relevant drops the errors of files that are not CUDA's by their name.
func relevant(path string, err error) error {
	base := filepath.Base(path)
	if !strings.HasPrefix(base, "libcuda.so") && !strings.HasPrefix(base, "libcudart") && !strings.HasPrefix(base, "libcupti") {
		return nil
	}
	return fmt.Errorf("no probes on %s: %w", path, err)
}

// An openLibrary is a CUDA library of a process while it is being probed.
type openLibrary struct {
	file    *os.File
	id      procfs.FileID
	path    string
	side    cudaapi.Library
	symbols map[string]uint64 // nil for a library that is none of CUDA's API
	watched uint64            // the place of watchedFunction, 0 without
}

// attachPath names the very file that was examined, whatever its path leads to now.
func (l *openLibrary) attachPath() string { return pathOf(l.file) }

func pathOf(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// choose picks the functions to probe in the library, one for each place: some
// functions have several names.
func (p *Prober) choose(l *openLibrary, want func(*cudaapi.Function) bool) []*cudaapi.Function {
	taken := map[uint64]bool{}
	var chosen []*cudaapi.Function
	for _, f := range p.tableOrder(l.symbols) {
		offset := l.symbols[f.Name]
		if want(f) && !taken[offset] {
			taken[offset] = true
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// tableOrder lists the functions that are wanted at all and defined.
func (p *Prober) tableOrder(symbols map[string]uint64) []*cudaapi.Function {
	var found []*cudaapi.Function
	for name := range symbols {
		if f := p.names[name]; f != nil {
			found = append(found, f)
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].ID < found[j].ID })
	return found
}

func statOf(info os.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }
