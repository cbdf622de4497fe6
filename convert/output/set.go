package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Set is the files of one output. The files grow in a folder beside the output's name. Once they
// are complete, a single file takes that name; several files stay together in a folder.
type Set struct {
	path   string // of a single file
	temp   string // folder of the files while they grow; "" until the first one
	direct bool   // path is a device or a pipe, which is written to directly
	names  []string
	files  []*os.File
}

// Files makes an output of one or more files; write creates them, and writes their content. A
// single file is at path, several are in folder. Files returns the number of files.
func Files(path, folder string, write func(*Set) error) (n int, err error) {
	s := &Set{path: path}
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		s.direct = true
	}
	err = errors.Join(write(s), s.close())
	if err == nil && !s.direct {
		err = s.settle(folder)
	}
	if s.temp != "" {
		os.RemoveAll(s.temp) // the first failure is the one to report
	}
	if err != nil {
		return 0, fmt.Errorf("cannot write %s: %s", path, Reason(err))
	}
	return len(s.files), nil
}

// ErrSeveral is the error of a second file for an output that can only be one.
var ErrSeveral = errors.New("it would be several files, one for each process: name a file or a folder with -o, or choose a process with --process")

// Create creates the next file. Its name counts only if there are several files; a name that is
// taken gets a number.
func (s *Set) Create(name string) (io.Writer, error) {
	if s.direct {
		return s.through()
	}
	if s.temp == "" {
		temp := tracelog.PartialName(strings.TrimRight(s.path, "/"), fmt.Sprintf("%d-%x", os.Getpid(), time.Now().UnixNano()))
		if err := os.Mkdir(temp, 0o777); err != nil {
			return nil, err
		}
		s.temp = temp
	}
	base, suffix, _ := strings.Cut(name, ".")
	for n := 2; ; n++ {
		f, err := os.OpenFile(filepath.Join(s.temp, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil {
			s.names, s.files = append(s.names, name), append(s.files, f)
			return f, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		name = fmt.Sprintf("%s-%d.%s", base, n, suffix)
	}
}

// through opens the device or pipe.
func (s *Set) through() (io.Writer, error) {
	if len(s.files) > 0 {
		return nil, ErrSeveral
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, f)
	return f, nil
}

func (s *Set) close() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// settle gives complete files their names.
func (s *Set) settle(folder string) error {
	switch {
	case len(s.files) > 1 || strings.HasSuffix(s.path, "/"):
		return s.settleFolder(folder)
	case len(s.files) == 0:
		return nil
	}
	target := s.path
	if real, err := filepath.EvalSymlinks(target); err == nil {
		target = real
	}
	if info, err := os.Stat(target); err == nil && info.IsDir() {
		return errors.New("a folder of that name is in the way")
	}
	return os.Rename(filepath.Join(s.temp, s.names[0]), target)
}

// settleFolder makes the folder of several files. It replaces a folder that holds nothing but
// files of an earlier output.
func (s *Set) settleFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return os.Rename(s.temp, folder)
	case err != nil:
		return err
	}
	_, suffix, _ := strings.Cut(s.names[0], ".")
	for _, e := range entries {
		if !e.Type().IsRegular() || !alike(e.Name(), suffix) {
			return fmt.Errorf("the folder %s holds %s, which is no trace of an earlier conversion: choose another name with -o", folder, e.Name())
		}
	}
	old := s.temp + ".old"
	if err := os.Rename(folder, old); err != nil {
		return err
	}
	err = os.Rename(s.temp, folder)
	if err != nil {
		return errors.Join(err, os.Rename(old, folder))
	}
	return os.RemoveAll(old)
}

// alike says whether a name has the suffix of an output's files, compressed or not.
func alike(name, suffix string) bool {
	plain := strings.TrimSuffix(suffix, ".gz")
	return strings.HasSuffix(strings.TrimSuffix(name, ".gz"), "."+plain)
}
