package door

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// How long threads are kept stopped while others are waited for. On a machine whose processors are busy a round takes long.
const (
	stopMost    = 5 * time.Millisecond
	stopMore    = 50 * time.Microsecond // for each thread: that is how long stopping one takes
	stopLongest = 200 * time.Millisecond
	plainRounds = 10 // without breakpoints
	leastRounds = 30
)

type kind int

const (
	program kind = iota
	cuda         // CUDA's libraries, and ours
	locks        // libc, and others that may hold locks that CUPTI needs
)

// A region is code of one kind.
type region struct {
	procfs.Mapping
	kind kind
	file *file
}

// A file is one that is mapped as code. It is opened when its unwind tables are needed.
type file struct {
	opened bool
	*os.File
	*elfsym.Image // nil if it cannot be read
}

// A code is the code of a process, ordered by address.
type code []region

func readCode(pid int) (code, error) {
	mapped, err := procfs.Code(pid)
	var c code
	files := map[procfs.Mapping]*file{}
	for _, m := range mapped {
		whole := procfs.Mapping{File: m.File, Path: m.Path} // several file systems in one may number files alike
		if files[whole] == nil {
			files[whole] = &file{}
		}
		c = append(c, region{m, kindOf(m.Path), files[whole]})
	}
	return c, err
}

func (c code) close() {
	for _, r := range c {
		if r.file.File != nil {
			r.file.File.Close()
			r.file.File = nil
		}
	}
}

var openMapped = procfs.Mapping.Open

// image opens the file of a region; nil if that cannot be, and where no file is mapped.
func (r *region) image(pid int) *elfsym.Image {
	if f := r.file; !f.opened && r.File.Inode != 0 {
		f.opened = true
		if opened, err := openMapped(r.Mapping, pid); err == nil {
			f.File = opened
			f.Image, _ = elfsym.Open(elfsym.InBlocks(opened)) // without one, its functions are not known
		}
	}
	return r.file.Image
}

var (
	cudaNames = []string{"libcuda.so", "libcudart", "libcupti", "libnvidia-", "libnvperf", "libcudatrace"}
	ownCopy   = regexp.MustCompile(`^recording-\d+-\d+\.so`) // of the injected library
	lockNames = []string{"libc.so", "libc-", "libpthread", "ld-", "libjemalloc", "libtcmalloc", "libmimalloc"}
)

func kindOf(path string) kind {
	name := filepath.Base(path)
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	switch {
	case slices.ContainsFunc(cudaNames, begins) || ownCopy.MatchString(name):
		return cuda
	case slices.ContainsFunc(lockNames, begins):
		return locks
	}
	return program
}

// find returns what kind of code is at an address; ok is false if there is none.
func (c code) find(address uint64) (k kind, ok bool) {
	r := procfs.Around(c, address)
	if r == nil {
		return 0, false
	}
	return r.kind, true
}

// A view is what the stack of a thread tells.
type view struct {
	inside  bool
	returns uint64 // where the outermost call into CUDA returns to; 0 if unknown
	began   kind   // the code that the thread began in, if libc is left out
}

// look looks at the words of a stack, the innermost first.
func (c code) look(pc uint64, words []uint64) view {
	at, _ := c.find(pc)
	v := view{inside: at == cuda}
	for _, w := range words {
		k, ok := c.find(w)
		switch {
		case !ok:
			continue
		case k == cuda:
			v.inside, v.returns = true, 0
		case v.inside && v.returns == 0 && k == program:
			v.returns = w
		}
		if k != locks {
			v.began = k
		}
	}
	return v
}

const mostFrames = 256

// isOutside goes up the calls that a thread has not returned from, by the unwind tables, and reports whether it got to the
// function in which the thread began, through none of CUDA's. Words are those of the stack, from its stack pointer on.
func (c code) isOutside(pid int, r elfsym.Registers, words []uint64) bool {
	from := r[elfsym.RSP]
	word := func(address uint64) (uint64, bool) {
		i := (address - from) / 8
		if (address-from)%8 != 0 || i >= uint64(len(words)) {
			return 0, false
		}
		return words[i], true
	}
	for depth := range mostFrames {
		at := r[elfsym.RIP]
		if depth > 0 {
			at-- // the call, not what follows it: that may be another function
		}
		m := procfs.Around(c, at)
		if m == nil || m.kind == cuda {
			return false
		}
		image := m.image(pid)
		if image == nil {
			return false
		}
		address, known := image.Address(m.Offset + at - m.From)
		if !known {
			return false
		}
		switch outermost, ok := image.Up(address, &r, word); {
		case !ok:
			return false
		case outermost: // of a coroutine, perhaps: the thread may have begun further up
			above := (r[elfsym.RSP] - from) / 8
			return above <= uint64(len(words)) && !c.look(0, words[above:]).inside
		}
	}
	return false
}

// startsInCUDA reports whether glibc started a thread with a function of CUDA's or ours, by the words of its struct pthread:
// among them is that function's address, at an offset that glibc does not promise. Where the
// program's function goes on in one of CUDA's and leaves no frame on the stack, the words have the program's function.
func (c code) startsInCUDA(words []uint64) bool {
	found := false
	for _, w := range words {
		k, ok := c.find(w)
		if ok && k == program {
			return false
		}
		found = found || ok && k == cuda
	}
	return found
}
