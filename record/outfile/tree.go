package outfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A tree is a set whose files lie in folders below that of the set. A manifest beside these folders lists them, a path
// a line. A folder that is there is replaced only if its manifest lists each file in it: not one to which somebody has
// added files, also those of another set.

// Bounds of what is read of a folder that is there.
const (
	deepest      = 8
	largestTable = 16 << 20 // bytes of a manifest
)

// writeManifest adds the manifest to the files of a set.
func (s *Set) writeManifest() error {
	f, err := s.target.Create()
	if err != nil {
		return err
	}
	names := slices.Sorted(slices.Values(s.names))
	s.files, s.names = append(s.files, f), append(s.names, s.target.opts.Manifest)
	_, err = io.WriteString(f, strings.Join(names, "\n")+"\n")
	return s.target.Failure(err)
}

// readManifest returns the paths of files and folders that a manifest lists, and its own; none without one.
func readManifest(dir *os.File, manifest string) (map[string]bool, error) {
	listed := make(map[string]bool)
	fd, err := unix.Openat(int(dir.Fd()), manifest, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
		return listed, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), manifest)
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, largestTable))
	if err != nil {
		return nil, err
	}
	listed[manifest] = true
	for name := range strings.Lines(string(text)) {
		if strings.Count(name, "/") <= deepest { // else nothing that is walked has that path
			list(listed, strings.TrimSuffix(name, "\n"))
		}
	}
	return listed, nil
}

// walk calls a function for each file below a folder, by its path there, and for each folder after what is in it. A
// link is a file. The folder that is given to the function holds the file.
func walk(dir *os.File, prefix string, deep int, do func(in *os.File, at string, kind uint32) error) error {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		at := path.Join(prefix, name)
		var s unix.Stat_t
		if err := unix.Fstatat(int(dir.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		kind := s.Mode & unix.S_IFMT
		if kind == unix.S_IFDIR && deep > 0 {
			if err := walkInto(dir, name, at, deep-1, do); err != nil {
				return err
			}
		}
		if err := do(dir, at, kind); err != nil {
			return err
		}
	}
	return nil
}

func walkInto(dir *os.File, name, at string, deep int, do func(in *os.File, at string, kind uint32) error) error {
	sub, err := openIn(dir, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	return walk(sub, at, deep, do)
}

// list adds a path and the folders on it.
func list(listed map[string]bool, name string) {
	for ; name != "." && name != "/"; name = path.Dir(name) {
		listed[name] = true
	}
}

// place gives a file of the set its path in the new folder.
func (f *newFolder) place(file *File, name string) error {
	dir, base := path.Split(name)
	if dir == "" {
		return file.giveIn(int(f.fd.Fd()), name)
	}
	in, err := f.subfolder(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return err
	}
	defer in.Close()
	return file.giveIn(int(in.Fd()), base)
}

// subfolder opens a folder in the new folder, and makes it where it is not there.
func (f *newFolder) subfolder(dir string) (*os.File, error) {
	at, err := openIn(f.fd, ".")
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(dir, "/") {
		next, err := makeIn(at, name)
		err = errors.Join(err, at.Close())
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func makeIn(at *os.File, name string) (*os.File, error) {
	made := unix.Mkdirat(int(at.Fd()), name, 0o777)
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return nil, made
	}
	next, err := openIn(at, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return next, nil
}
