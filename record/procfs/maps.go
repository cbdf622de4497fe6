// Package procfs reads what /proc says of processes: which files they have mapped, how
// large their code is, which program they run, what their threads are called.
//
// An error says in words for people why a process can't be read; errors.Is tells
// fs.ErrNotExist, of a process that has ended, and fs.ErrPermission apart.
package procfs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A FileID tells files apart within the mappings of one process.
type FileID struct {
	Device string // "fd:01", as in /proc/PID/maps
	Inode  uint64
}

// A Mapping is a part of a process's memory that shows a part of a file.
type Mapping struct {
	File    FileID
	Span    string // its addresses, "7f0000000000-7f0000001000": its name in /proc/PID/map_files
	Path    string // of the file, in the process's own mount namespace
	Deleted bool   // the file has been deleted or replaced
}

// CodeFiles lists the files that a process has mapped as code, each by its first
// executable mapping.
func CodeFiles(pid int) ([]Mapping, error) {
	var found []Mapping
	seen := map[FileID]bool{}
	for m, err := range mappings(pid, isCode) {
		if err != nil {
			return nil, err
		}
		if m.File.Inode != 0 && !seen[m.File] {
			seen[m.File] = true
			found = append(found, m)
		}
	}
	return found, nil
}

// Files lists the paths of the files that a process has mapped, each once, in the order
// of their addresses.
func Files(pid int) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	for m, err := range mappings(pid, showsFile) {
		if err != nil {
			return nil, err
		}
		if !seen[m.Path] {
			seen[m.Path] = true
			files = append(files, m.Path)
		}
	}
	return files, nil
}

// CodeAt finds the addresses of the file's code that a process has mapped around an
// address; ok is false if none is there.
func CodeAt(pid int, address uint64) (from, to uint64, ok bool, err error) {
	for m, err := range mappings(pid, isCode) {
		if err != nil {
			return 0, 0, false, err
		}
		if from, to, ok := m.addresses(); ok && address >= from && address < to {
			return from, to, true, nil
		}
	}
	return 0, 0, false, nil
}

func (m Mapping) addresses() (from, to uint64, ok bool) {
	first, last, _ := strings.Cut(m.Span, "-")
	from, fromErr := strconv.ParseUint(first, 16, 64)
	to, toErr := strconv.ParseUint(last, 16, 64)
	return from, to, fromErr == nil && toErr == nil
}

// mappings reads the lines of /proc/PID/maps that are wanted. An error comes last.
func mappings(pid int, wanted func(line []byte) bool) iter.Seq2[Mapping, error] {
	return func(yield func(Mapping, error) bool) {
		f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			yield(Mapping{}, explain(pid, err))
			return
		}
		defer f.Close()
		for m, err := range parseMappings(f, wanted) {
			if err != nil {
				err = explain(pid, err)
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// parseMappings reads lines in the form of /proc/PID/maps.
func parseMappings(r io.Reader, wanted func(line []byte) bool) iter.Seq2[Mapping, error] {
	return func(yield func(Mapping, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 64<<10)
		for lines.Scan() {
			if !wanted(lines.Bytes()) {
				continue
			}
			if m, ok := parseMapping(lines.Text()); ok && !yield(m, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Mapping{}, err)
		}
	}
}

// showsFile and isCode look at a line without parsing it: a process can have thousands.
func showsFile(line []byte) bool { return bytes.IndexByte(line, '/') >= 0 }

func isCode(line []byte) bool {
	at := bytes.IndexByte(line, ' ')
	return at >= 0 && len(line) > at+3 && line[at+3] == 'x' && showsFile(line)
}

// parseMapping reads one line; ok is false if its memory shows no file:
//
//	7f0000000000-7f0000001000 r-xp 00002000 fd:01 1234   /usr/lib/libcuda.so.1
func parseMapping(line string) (m Mapping, ok bool) {
	var fields [5]string
	for i := range fields {
		fields[i], line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
	}
	inode, err := strconv.ParseUint(fields[4], 10, 64)
	path := strings.TrimLeft(line, " ")
	if err != nil || !strings.HasPrefix(path, "/") {
		return m, false
	}
	path, deleted := strings.CutSuffix(path, deletedSuffix)
	return Mapping{File: FileID{fields[3], inode}, Span: fields[0], Path: path, Deleted: deleted}, true
}

// deletedSuffix is what the kernel adds to the path of a file that has been deleted.
const deletedSuffix = " (deleted)"

// Open opens the mapped file itself. That is /proc/PID/map_files, which works for
// deleted files too; where the kernel does not let us use it, the file of that path in
// the process's root, if it is still the mapped one.
func (m Mapping) Open(pid int) (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/map_files/%s", pid, m.Span))
	if err == nil || m.Deleted {
		return f, err
	}
	f, err = os.Open(fmt.Sprintf("/proc/%d/root%s", pid, m.Path))
	if err != nil {
		return nil, err
	}
	if !m.shows(f) {
		f.Close()
		return nil, fmt.Errorf("%s has been replaced since process %d started", m.Path, pid)
	}
	return f, nil
}

// shows says whether f is the mapped file, as far as the inode tells. An overlay file
// system shows other numbers in mappings than for files.
func (m Mapping) shows(f *os.File) bool {
	var st unix.Stat_t
	var system unix.Statfs_t
	if unix.Fstat(int(f.Fd()), &st) != nil || unix.Fstatfs(int(f.Fd()), &system) != nil {
		return false
	}
	return st.Ino == m.File.Inode || system.Type == unix.OVERLAYFS_SUPER_MAGIC
}
