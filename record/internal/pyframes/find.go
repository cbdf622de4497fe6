package pyframes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// An Interpreter is CPython in a process, with the addresses there of what leads to its frames.
type Interpreter struct {
	Path        string // of the program or the library that it is
	Version     string // "3.12"
	Layout      *Layout
	Runtime     uint64 // _PyRuntime
	RuntimeSize uint64 // bytes of it; 0 if unknown
	GILState    uint64 // PyGILState_GetThisThreadState
	CodeType    uint64 // PyCode_Type
	// in another program than Python's own, which may end it and start it anew: versions of code objects come again
	Embedded bool
}

// An Unusable error says why the frames of an interpreter cannot be read. It continues "Python lines of process N are
// not recorded: ".
type Unusable string

func (u Unusable) Error() string { return string(u) }

// Find finds the interpreter of a process: in its program, or in a libpython. It returns nil if there is none, and an
// [Unusable] error if there is one whose frames cannot be read.
func Find(pid int) (*Interpreter, error) {
	mapped, err := procfs.CodeFiles(pid)
	if err != nil {
		return nil, err
	}
	program := procfs.Describe(pid).Executable
	var found *Interpreter
	for _, m := range mapped {
		if m.Path != program && !isLibrary(m.Path) {
			continue
		}
		one, err := examine(pid, m)
		switch {
		case err != nil:
			return nil, err
		case one != nil && found != nil:
			return nil, Unusable(fmt.Sprintf("it has two interpreters, %s and %s", found.Path, one.Path))
		case one != nil:
			found = one
			found.Embedded = !pythonName.MatchString(filepath.Base(program))
		}
	}
	return found, nil
}

var pythonName = regexp.MustCompile(`^python[0-9.]*$`)

var libraryName = regexp.MustCompile(`^libpython3[.0-9]*[a-z]*[-.].*so[.0-9]*$`)

// isLibrary says whether a file may be a libpython, also one that a package has renamed: libpython3-1a2b3c4d.12.so.1.0.
func isLibrary(path string) bool { return libraryName.MatchString(filepath.Base(path)) }

// The symbols by which interpreters are known.
const (
	symRuntime  = "_PyRuntime"
	symGILState = "PyGILState_GetThisThreadState"
	symCodeType = "PyCode_Type"
	symVersion  = "Py_Version"             // 3.11 and later: its value is the version
	sym3_10     = "Py_NewRef"              // 3.10 and later
	sym3_9      = "PyThreadState_GetFrame" // 3.9 and later
)

// unusual builds have a symbol of these. Their objects have other layouts, or were never tried.
var unusual = []struct{ symbol, name string }{
	{"_Py_NegativeRefcount", "a debug build"},
	{"_Py_RefTotal", "a debug build"},
	{"_Py_PrintReferences", "a build that traces references"},
	{"_Py_MergeZeroLocalRefcount", "a free-threaded build"},
}

// examine looks for an interpreter in a mapped file. A file that cannot be read has none: the process has just ended,
// or its memory may not be read.
func examine(pid int, m procfs.Mapping) (*Interpreter, error) {
	f, err := m.Open(pid)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	defer f.Close()
	i, image, err := inFile(m.Path, f)
	if err != nil || i == nil {
		return nil, err
	}
	bias, known := image.Bias(m.From, m.Offset)
	if !known {
		return nil, Unusable(fmt.Sprintf("%s is mapped in an unusual way", m.Path))
	}
	i.Runtime, i.GILState, i.CodeType = i.Runtime+bias, i.GILState+bias, i.CodeType+bias
	return i, nil
}

// inFile looks for an interpreter in a file. Its addresses are those that the file has.
func inFile(path string, f io.ReaderAt) (*Interpreter, *elfsym.Image, error) {
	image, err := elfsym.Open(f)
	if err != nil {
		return nil, nil, nil
	}
	names := []string{symRuntime, symGILState, symCodeType, symVersion, sym3_10, sym3_9}
	for _, u := range unusual {
		names = append(names, u.symbol)
	}
	symbols, err := image.Exports(names...)
	if err != nil || symbols[symRuntime].From == 0 || symbols[symGILState].From == 0 || symbols[symCodeType].From == 0 {
		return nil, nil, nil
	}
	layout, err := identify(path, image, symbols)
	if err != nil {
		return nil, nil, err
	}
	runtime := symbols[symRuntime]
	return &Interpreter{Path: path, Version: fmt.Sprintf("3.%d", layout.Minor), Layout: layout,
		Runtime: runtime.From, RuntimeSize: runtime.To - runtime.From,
		GILState: symbols[symGILState].From, CodeType: symbols[symCodeType].From}, image, nil
}

// identify returns the layout of an interpreter.
func identify(path string, image *elfsym.Image, symbols map[string]elfsym.Span) (*Layout, error) {
	version, minor, err := versionOf(path, image, symbols)
	if err != nil {
		return nil, err
	}
	for _, u := range unusual {
		if symbols[u.symbol].From != 0 {
			return nil, Unusable(fmt.Sprintf("%s is %s of CPython %s", path, u.name, version))
		}
	}
	layout := layoutOf(minor)
	if layout == nil {
		return nil, Unusable(fmt.Sprintf("%s is CPython %s; frames of %s to %s are known", path, version, oldest, newest))
	}
	layout, err = layout.published(image, symbols[symRuntime].From)
	switch {
	case errors.Is(err, errFreeThreaded):
		return nil, Unusable(fmt.Sprintf("%s is a free-threaded build of CPython %s", path, version))
	case err != nil:
		return nil, Unusable(fmt.Sprintf("%s is CPython %s, but %v", path, version, err))
	}
	return layout, nil
}

// versionOf reads the version that a file has in it. Before 3.11 only its functions and its name tell.
func versionOf(path string, image *elfsym.Image, symbols map[string]elfsym.Span) (version string, minor int,
	err error) {
	if at := symbols[symVersion].From; at != 0 {
		b := image.Bytes(at, 4)
		if len(b) < 4 {
			return "", 0, Unusable(fmt.Sprintf("%s does not tell its version", path))
		}
		hex := binary.LittleEndian.Uint32(b) // PY_VERSION_HEX: major, minor, micro, level (15 for a release) and serial
		version = fmt.Sprintf("%d.%d.%d", hex>>24, hex>>16&255, hex>>8&255)
		if hex>>4&15 != 15 {
			return "", 0, Unusable(fmt.Sprintf("%s is CPython %s before its release", path, version))
		}
		minor = int(hex >> 16 & 255)
		if hex>>24 != 3 {
			minor = 0
		}
	} else {
		switch {
		case symbols[sym3_10].From != 0:
			minor = 10
		case symbols[sym3_9].From != 0:
			minor = 9
		default:
			return "", 0, Unusable(fmt.Sprintf("%s is CPython 3.8 or older; frames of %s to %s are known", path, oldest, newest))
		}
		version = fmt.Sprintf("3.%d", minor)
	}
	if name := image.Soname(); strings.HasPrefix(name, "libpython") &&
		!strings.Contains(name, fmt.Sprintf("3.%d.", minor)) {
		return "", 0, Unusable(fmt.Sprintf("%s seems to be CPython %s, but is called %s", path, version, name))
	}
	return version, minor, nil
}
