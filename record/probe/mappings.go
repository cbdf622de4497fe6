package probe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A fileID tells files apart within the mappings of one process.
type fileID struct {
	device string // "fd:01", as in /proc/PID/maps
	inode  uint64
}

// A mapping is the first executable mapping of a file.
type mapping struct {
	file  fileID
	span  string // "7f0000000000-7f0000001000", also the name in /proc/PID/map_files
	path  string // in the process's own mount namespace
	freed bool   // the file has been deleted or replaced
}

// readMappings lists the files that a process has mapped as code, each once.
func readMappings(pid int) ([]mapping, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, processError(pid, err)
	}
	defer f.Close()
	found, err := parseMappings(f)
	if err != nil {
		return nil, processError(pid, err)
	}
	return found, nil
}

// A processErr has words that stand on their own; its cause is for errors.Is.
type processErr struct {
	words string
	cause error
}

func (e *processErr) Error() string { return e.words }
func (e *processErr) Unwrap() error { return e.cause }

// processError explains why a process can't be looked at.
func processError(pid int, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return &processErr{fmt.Sprintf("process %d has ended", pid), fs.ErrNotExist}
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() == 0:
		return &processErr{fmt.Sprintf("process %d may not be looked into, even by root: the kernel or a container protects it", pid), err}
	case errors.Is(err, fs.ErrPermission):
		return &processErr{fmt.Sprintf("process %d belongs to someone else (run with sudo)", pid), err}
	}
	return fmt.Errorf("reading what process %d has mapped: %w", pid, err)
}

// parseMappings reads the form of /proc/PID/maps:
//
//	7f0000000000-7f0000001000 r-xp 00002000 fd:01 1234   /usr/lib/libcuda.so.1
func parseMappings(r io.Reader) ([]mapping, error) {
	var found []mapping
	seen := map[fileID]bool{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		m, ok := parseMapping(lines.Text())
		if ok && !seen[m.file] {
			seen[m.file] = true
			found = append(found, m)
		}
	}
	return found, lines.Err()
}

func parseMapping(line string) (m mapping, ok bool) {
	var fields [5]string
	for i := range fields {
		fields[i], line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
	}
	inode, err := strconv.ParseUint(fields[4], 10, 64)
	if err != nil || inode == 0 || len(fields[1]) < 3 || fields[1][2] != 'x' {
		return m, false
	}
	path := strings.TrimLeft(line, " ")
	if !strings.HasPrefix(path, "/") {
		return m, false
	}
	path, freed := strings.CutSuffix(path, " (deleted)")
	return mapping{file: fileID{fields[3], inode}, span: fields[0], path: path, freed: freed}, true
}

// open opens the mapped file itself. That is /proc/PID/map_files, which works for
// deleted files too; where the kernel does not let us use it, the file of that name
// as the process sees it, if it is still the same.
func (m mapping) open(pid int) (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/map_files/%s", pid, m.span))
	if err == nil || m.freed {
		return f, err
	}
	f, err = os.Open(fmt.Sprintf("/proc/%d/root%s", pid, m.path))
	if err != nil {
		return nil, err
	}
	if !m.same(f) {
		f.Close()
		return nil, fmt.Errorf("%s has been replaced since process %d started", m.path, pid)
	}
	return f, nil
}

// same says whether f is the mapped file, as far as the inode tells. An overlay file
// system shows other numbers in mappings than for files.
func (m mapping) same(f *os.File) bool {
	var st unix.Stat_t
	var fsInfo unix.Statfs_t
	if unix.Fstat(int(f.Fd()), &st) != nil || unix.Fstatfs(int(f.Fd()), &fsInfo) != nil {
		return false
	}
	return st.Ino == m.file.inode || fsInfo.Type == unix.OVERLAYFS_SUPER_MAGIC
}
