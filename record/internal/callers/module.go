package callers

import (
	"errors"
	"os"

	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/procfs"
)

const (
	maxModules   = 1 << 14
	maxOpen      = 256     // files that are examined
	maxSymbols   = 1 << 22 // functions of one file
	maxAllNames  = 1 << 23 // functions of all files, of 16 bytes each
	maxFrames    = 1 << 12 // return addresses that are remembered, of a file
	maxCallBytes = 9       // longest call instruction
)

// A moduleCache holds the files that processes have mapped as code. Processes that map the same
// file share its module.
type moduleCache struct {
	modules map[procfs.Content]*module
	opened  int
	symbols int
	names   int // bytes of symbols in frames
}

// A module is a file that processes have mapped as code.
type module struct {
	cache   *moduleCache
	content procfs.Content
	path    string
	pid     int // one that maps it
	mapping procfs.Mapping

	file    *os.File
	elf     *elfsym.Image // nil: not examined yet, or broken
	broken  bool
	buildID string
	kind    kind
	launch  uint64          // address of cudaLaunchKernel, where its code tells it
	table   *elfsym.Symbols // nil: not read yet
	frames  map[uint64]*frame
}

// open returns the module of a mapped file, nil if the file cannot be read.
func (c *moduleCache) open(pid int, m procfs.Mapping) *module {
	f, err := m.Open(pid)
	if err != nil {
		f, err = m.OpenPath() // the process has ended
	}
	if err != nil {
		return nil
	}
	defer f.Close()
	content, err := procfs.ContentOf(f)
	if err != nil {
		return nil
	}
	known := c.modules[content]
	if known == nil {
		if len(c.modules) >= maxModules {
			return nil
		}
		known = &module{cache: c, content: content, path: m.Path, frames: map[uint64]*frame{}}
		if c.modules == nil {
			c.modules = map[procfs.Content]*module{}
		}
		c.modules[content] = known
	}
	known.pid, known.mapping = pid, m
	return known
}

func (c *moduleCache) close() {
	for _, m := range c.modules {
		if m.file != nil {
			m.file.Close()
			m.file, m.elf, m.broken = nil, nil, true
		}
	}
}

// image opens the file, once, for examination; nil if that fails.
func (m *module) image() *elfsym.Image {
	if m.elf != nil || m.broken {
		return m.elf
	}
	if m.cache.opened >= maxOpen {
		return nil
	}
	f, err := m.reopen()
	if err != nil {
		return nil // another process may show it later
	}
	m.elf, err = elfsym.Open(f)
	if err != nil {
		m.broken = true
		f.Close()
		return nil
	}
	m.file = f
	m.cache.opened++
	m.buildID = m.elf.BuildID()
	m.kind = kindOf(m.path, m.elf.Soname())
	return m.elf
}

// reopen opens the file through a process that mapped it or, if it no longer does, by its path.
func (m *module) reopen() (*os.File, error) {
	f, err1 := m.same(m.mapping.Open(m.pid))
	if err1 == nil {
		return f, nil
	}
	f, err2 := m.same(m.mapping.OpenPath())
	if err2 == nil {
		return f, nil
	}
	return nil, errors.Join(err1, err2)
}

// same passes an open file on if it is the module's, and closes any other one.
func (m *module) same(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	if content, err := procfs.ContentOf(f); err != nil || content != m.content {
		return nil, errors.Join(errors.New(m.path+" has been replaced"), err, f.Close())
	}
	return f, nil
}

// symbols are the functions that the file names.
func (m *module) symbols() *elfsym.Symbols {
	if m.table != nil {
		return m.table
	}
	table, err := m.elf.Symbols(min(maxSymbols, maxAllNames-m.cache.symbols))
	if err != nil {
		table = &elfsym.Symbols{}
	}
	m.table = table
	m.cache.symbols += table.Len()
	return table
}

// A frame is what a file tells of a return address in it.
type frame struct {
	call
	elfsym.Frame      // zero if the unwind tables don't know the function
	found        bool // by the unwind tables
	symbols      []elfsym.Symbol
	role         role
	name         string // of the runtime's exported function around it
	judged       bool   // role and name are known
}

// frame examines a return address.
func (m *module) frame(address uint64) *frame {
	if f := m.frames[address]; f != nil {
		return f
	}
	f := &frame{}
	before := min(address, maxCallBytes)
	f.call = callBefore(m.elf.Bytes(address-before, int(before)), address)
	if !m.elf.Executable(address - 1) {
		f.call = call{}
	}
	f.Frame, f.found = m.elf.Frame(address - 1)
	if m.kind != driverLibrary {
		f.symbols = m.symbols().At(address - 1)
	}
	m.cache.remember(m, address, f)
	return f
}

// remember keeps a frame. Frames that find no room are examined again.
func (c *moduleCache) remember(m *module, address uint64, f *frame) {
	size := 0
	for _, s := range f.symbols {
		size += len(s.Name)
	}
	if c.names+size > maxNames {
		for _, other := range c.modules {
			clear(other.frames)
		}
		c.names = 0
	}
	if len(m.frames) >= maxFrames {
		clear(m.frames)
	}
	c.names += size
	m.frames[address] = f
}

// begins reports whether an address is the beginning of the function around the frame.
func (f *frame) begins(address uint64) bool {
	if f.found && f.From == address {
		return true
	}
	return len(f.symbols) > 0 && f.symbols[0].From == address && (!f.found || f.Contains(address))
}
