// Package procfs reads /proc. Input: a PID. Output: the files that the process has mapped, the
// size of its code, its program, and the names of its threads.
//
// An error is a sentence for a person. errors.Is finds fs.ErrNotExist if the process has ended,
// and fs.ErrPermission if it may not be read.
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A FileID identifies a file among the mappings of one process.
type FileID struct {
	Device string // "fd:01", as in /proc/PID/maps
	Inode  uint64
}

// A Mapping is a part of a process's memory that maps a part of a file.
type Mapping struct {
	File     FileID
	From, To uint64 // its first address, and the first one behind it
	Offset   uint64 // place in the file of the first byte
	Path     string // of the file, in the process's own mount namespace
	Deleted  bool   // the file has been deleted or replaced
}

// isFile reports whether a file is mapped, and nothing else that has a name.
func (m Mapping) isFile() bool { return strings.HasPrefix(m.Path, "/") }

// Bounds are From and To.
func (m Mapping) Bounds() (from, to uint64) { return m.From, m.To }

// Around finds the mapping around an address among those of [Code], or what is made of them; nil if there is none.
func Around[M interface{ Bounds() (from, to uint64) }](code []M, address uint64) *M {
	i, _ := slices.BinarySearchFunc(code, address, func(m M, address uint64) int {
		if _, to := m.Bounds(); to <= address {
			return -1
		}
		return 1
	})
	if i < len(code) {
		if from, _ := code[i].Bounds(); from <= address {
			return &code[i]
		}
	}
	return nil
}

// CodeFiles lists the files that a process has mapped as code, each with its first executable
// mapping.
func CodeFiles(pid int) ([]Mapping, error) {
	var found []Mapping
	seen := map[FileID]bool{}
	for m, err := range mappings(pid, isCode) {
		if err != nil {
			return nil, err
		}
		if m.isFile() && m.File.Inode != 0 && !seen[m.File] {
			seen[m.File] = true
			found = append(found, m)
		}
	}
	return found, nil
}

// Code lists the executable mappings, ordered by address. One that maps no file has no inode.
func Code(pid int) ([]Mapping, error) {
	var found []Mapping
	paths := pathsOf(pid)
	for m, err := range mappings(pid, isExecutable) {
		if err == nil {
			err = paths.keep(m.Path)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	return found, nil
}

// Files lists the paths of the files that a process has mapped, each once, ordered by address.
func Files(pid int) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	paths := pathsOf(pid)
	for m, err := range mappings(pid, showsFile) {
		if err == nil && m.isFile() && !seen[m.Path] {
			seen[m.Path] = true
			files = append(files, m.Path)
			err = paths.keep(m.Path)
		}
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// A kept counts the bytes of the paths that are kept of a memory map.
type kept struct{ pid, bytes int }

func pathsOf(pid int) *kept { return &kept{pid: pid} }

func (k *kept) keep(path string) error {
	if k.bytes += len(path); k.bytes > maxPaths {
		return fmt.Errorf("process %d maps files of more than %d bytes of paths: %w", k.pid, maxPaths, ErrCut)
	}
	return nil
}

// FindMapping returns the first mapping of a process of a file with that path and, unless it is 0, that inode; ok is
// false if it has none, or may not be read.
func FindMapping(pid int, path string, inode uint64) (found Mapping, ok bool) {
	for m, err := range mappings(pid, func(line []byte) bool { return bytes.Contains(line, []byte(path)) }) {
		if err == nil && m.Path == path && (inode == 0 || m.File.Inode == inode) {
			return m, true
		}
	}
	return found, false
}

// mappings reads the wanted lines of /proc/PID/maps. An error comes last.
func mappings(pid int, wanted func(line []byte) bool) iter.Seq2[Mapping, error] {
	return func(yield func(Mapping, error) bool) {
		for m, err := range parseMappings(lines(folder(pid)+"/maps", maxMaps), wanted) {
			if err != nil {
				err = explain(pid, err)
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// parseMappings reads the wanted ones of lines like those of /proc/PID/maps.
func parseMappings(text iter.Seq2[[]byte, error], wanted func(line []byte) bool) iter.Seq2[Mapping, error] {
	return func(yield func(Mapping, error) bool) {
		for line, err := range text {
			if err != nil {
				yield(Mapping{}, err)
				return
			}
			if !wanted(line) {
				continue
			}
			if m, ok := parseLine(string(line)); ok && !yield(m, nil) {
				return
			}
		}
	}
}

// showsFile and isCode check a line without parsing it: a process can have thousands of lines.
func showsFile(line []byte) bool { return bytes.IndexByte(line, '/') >= 0 }

func isCode(line []byte) bool { return isExecutable(line) && showsFile(line) }

func isExecutable(line []byte) bool {
	at := bytes.IndexByte(line, ' ')
	return at >= 0 && len(line) > at+3 && line[at+3] == 'x'
}

// parseLine reads one line, whatever it maps:
//
//	7f0000000000-7f0000001000 r-xp 00002000 fd:01 1234   /usr/lib/libcuda.so.1
func parseLine(line string) (m Mapping, ok bool) {
	var fields [5]string
	for i := range fields {
		fields[i], line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
	}
	first, last, _ := strings.Cut(fields[0], "-")
	m.File.Device = fields[3]
	m.Path, m.Deleted = strings.CutSuffix(strings.TrimLeft(line, " "), deletedSuffix)
	ok = true
	for _, n := range []struct {
		to   *uint64
		text string
		base int
	}{{&m.From, first, 16}, {&m.To, last, 16}, {&m.Offset, fields[2], 16}, {&m.File.Inode, fields[4], 10}} {
		var err error
		*n.to, err = strconv.ParseUint(n.text, n.base, 64)
		ok = ok && err == nil
	}
	return m, ok
}

// deletedSuffix is the end that the kernel adds to the path of a deleted file.
const deletedSuffix = " (deleted)"

// Open opens the mapped file itself, through /proc/PID/map_files, even if it has been deleted.
// Where the kernel forbids that, it opens the file by its path in the process's root, if that is
// still the mapped file.
func (m Mapping) Open(pid int) (*os.File, error) {
	f, err := m.open(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.From, m.To))
	if err == nil || m.Deleted || errors.Is(err, unix.EAGAIN) {
		return f, err
	}
	return m.openAt(fmt.Sprintf("/proc/%d/root%s", pid, m.Path))
}

// OpenPath opens the mapped file by its path, as we see it, after the process has ended.
func (m Mapping) OpenPath() (*os.File, error) {
	if m.Deleted {
		return nil, fmt.Errorf("%s has been deleted", m.Path)
	}
	return m.openAt(m.Path)
}

// openAt looks at the file before it opens it: a device could act on being opened.
func (m Mapping) openAt(path string) (*os.File, error) {
	at, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	if !m.shows(at) {
		return nil, fmt.Errorf("%s has been replaced since the process mapped it", m.Path)
	}
	return m.open(OpenFile(at))
}

// open opens the mapped file. The process may have a lease on it: then the kernel would have us wait for 45 seconds, or
// as long as /proc/sys/fs/lease-break-time says.
func (m Mapping) open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.EAGAIN) {
		err = &unreadable{m.Path + " cannot be read now: a process has a lease on it", unix.EAGAIN}
	}
	return f, err
}

// shows reports whether f is the mapped file, by its inode. On an overlay file system it can only tell
// that f is a regular file: a mapping shows another inode there than the file.
func (m Mapping) shows(f *os.File) bool {
	var st unix.Stat_t
	var system unix.Statfs_t
	if unix.Fstat(int(f.Fd()), &st) != nil || unix.Fstatfs(int(f.Fd()), &system) != nil {
		return false
	}
	return st.Mode&unix.S_IFMT == unix.S_IFREG && (st.Ino == m.File.Inode || system.Type == unix.OVERLAYFS_SUPER_MAGIC)
}
