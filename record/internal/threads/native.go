package threads

import (
	"os"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Bounds of the native frames of a recording.
const (
	nativeFramesMost = 1 << 16
	nativeStacksMost = 1 << 17
	mappingsMost     = 1 << 16 // of a process
	imagesMost       = 32      // files that are open
	symbolsMost      = 1 << 22 // functions of all open files, of 16 bytes each

	mappingsAgain = time.Second // between two readings of a process's mappings
)

// natives give native frames and stacks their IDs. Another goroutine finds out what the addresses are: files and
// symbols take their time.
type natives struct {
	log     *tracelog.Writer
	frames  map[nativeFrame]uint32
	stacks  map[tracelog.NativeStack]uint32 // with ID 0
	without uint64                          // samples without frames, for lack of room

	later   Backlog // finds places
	images  map[imageKey]*image
	symbols int
}

type nativeFrame struct {
	space   *space
	address uint64
}

// A place is an address whose file and function are to be found.
type place struct {
	id uint32
	nativeFrame
}

func newNatives(log *tracelog.Writer) *natives {
	return &natives{
		log: log, frames: map[nativeFrame]uint32{}, stacks: map[tracelog.NativeStack]uint32{}, images: map[imageKey]*image{},
	}
}

// stack returns the ID of a stack, 0 if there is none or no room for it. Addresses come from the innermost one on; all
// but the first are return addresses.
func (n *natives) stack(in *space, addresses []uint64) (id uint32) {
	for i := len(addresses) - 1; i >= 0; i-- {
		address := addresses[i]
		if i > 0 && address > 0 {
			address-- // within the call
		}
		frame := n.frame(nativeFrame{in, address})
		s := tracelog.NativeStack{Parent: id, Frame: frame}
		known := n.stacks[s]
		if known == 0 {
			if frame == 0 || len(n.stacks) >= nativeStacksMost {
				n.without++
				return 0
			}
			known = uint32(len(n.stacks)) + 1
			n.stacks[s] = known
			s.ID = known
			s.AddTo(n.log)
		}
		id = known
	}
	return id
}

// frame returns the ID of a frame, 0 without room.
func (n *natives) frame(f nativeFrame) uint32 {
	id := n.frames[f]
	if id == 0 && len(n.frames) < nativeFramesMost {
		id = uint32(len(n.frames)) + 1
		n.frames[f] = id
		n.later.Do(func() {
			described := n.describe(place{id, f})
			described.AddTo(n.log)
		})
	}
	return id
}

// finish waits until all places are found.
func (n *natives) finish() {
	n.later.Wait()
	for _, i := range n.images {
		i.close()
	}
}

// describe finds the file and the function of a place.
func (n *natives) describe(p place) tracelog.NativeFrame {
	f := tracelog.NativeFrame{ID: p.id, Address: p.address}
	m := p.space.find(p.address)
	if m == nil {
		return f
	}
	f.Module = m.Path
	image := n.image(p.space.pid, m)
	if image == nil {
		return f
	}
	bias, ok := image.elf.Bias(m.From, m.Offset)
	if !ok {
		return f
	}
	f.Address, f.BuildID = p.address-bias, image.buildID
	if image.symbols == nil {
		return f
	}
	if s := image.symbols.At(f.Address); len(s) > 0 {
		f.Symbol, f.SymbolOffset = s[0].Name, uint32(f.Address-s[0].From)
	}
	return f
}

// A space is the code that a process has mapped. It belongs to the goroutine that describes places.
type space struct {
	pid  uint32
	code []procfs.Mapping // by address
	read time.Time
}

func newSpace(pid uint32) *space { return &space{pid: pid} }

// find returns the mapping with an address, nil if there is none.
func (s *space) find(address uint64) *procfs.Mapping {
	if m := procfs.Around(s.code, address); m != nil || time.Since(s.read) < mappingsAgain {
		return m
	}
	s.read = time.Now()
	code, err := procfs.Code(int(s.pid))
	if err != nil {
		return nil // it has ended
	}
	s.code = code[:min(len(code), mappingsMost)]
	return procfs.Around(s.code, address)
}

// An image is a file of code that is open.
type image struct {
	file    *os.File
	elf     *elfsym.Image
	buildID string
	symbols *elfsym.Symbols // nil: there was no room
}

func (i *image) close() {
	if i != nil {
		_ = i.file.Close() // it was read only
	}
}

type imageKey struct {
	file procfs.FileID
	path string
}

// image opens the file of a mapping; nil if it cannot be read.
func (n *natives) image(pid uint32, m *procfs.Mapping) *image {
	key := imageKey{m.File, m.Path}
	i, known := n.images[key]
	if known || len(n.images) >= imagesMost || m.File.Inode == 0 {
		return i
	}
	n.images[key] = nil
	f, err := m.Open(int(pid))
	if err != nil {
		if f, err = m.OpenPath(); err != nil {
			return nil
		}
	}
	elf, err := elfsym.Open(f)
	if err != nil {
		_ = f.Close()
		return nil
	}
	i = &image{file: f, elf: elf, buildID: elf.BuildID()}
	if i.symbols, err = elf.Symbols(symbolsMost - n.symbols); err == nil {
		n.symbols += i.symbols.Len()
	} else {
		i.symbols = nil
	}
	n.images[key] = i
	return i
}
