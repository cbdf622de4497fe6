package outfile

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// A Set is the files that grow for one target. A single file gets the target's name; several get a
// folder. A folder of that name is replaced if a person named it, it belongs to the user, and it holds
// nothing but files of an earlier set.
type Set struct {
	target *Target
	files  []*File
	names  []string // of the files in the folder
}

// NewSet returns the set of files for a target with [Options.Folder].
func NewSet(t *Target) *Set { return &Set{target: t} }

// Create makes the next file. Its name counts only in a folder; a name that is taken gets a number.
func (s *Set) Create(name string) (*File, error) {
	t := s.target
	check := t.several || len(s.files) == 1
	if t.opts.Manifest != "" {
		check = len(s.files) == 0
	}
	if check {
		if err := t.as.Do(func() error { return t.checkFolder(name) }); err != nil {
			return nil, t.Failure(err)
		}
	}
	f, err := t.Create()
	if err != nil {
		return nil, err
	}
	free := name
	for n := 2; slices.Contains(s.names, free); n++ {
		free = numbered(name, n)
	}
	s.files, s.names = append(s.files, f), append(s.names, free)
	return f, nil
}

// Commit gives the whole files their names.
func (s *Set) Commit() (done Done, err error) {
	t := s.target
	switch {
	case len(s.files) == 0:
		return Done{}, nil
	case t.opts.Manifest != "":
		if err := s.writeManifest(); err != nil {
			return Done{}, err
		}
		return s.commitFolder()
	case len(s.files) > 1 || t.several:
		return s.commitFolder()
	case t.opts.Named && t.place.found != nil && t.place.stat.Mode&unix.S_IFMT == unix.S_IFDIR:
		return Done{}, t.Failure(errFolder)
	}
	return s.files[0].Commit()
}

// Close closes the files.
func (s *Set) Close() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return s.target.Failure(err)
}

// Discard closes the files and removes them.
func (s *Set) Discard() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, f.Discard())
	}
	return err
}

// commitFolder makes a folder of the files, and then gives it its name.
func (s *Set) commitFolder() (done Done, err error) {
	t := s.target
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		return Done{}, t.Failure(errAbandoned)
	}
	err = t.as.Do(func() error {
		f, err := t.makeFolder()
		if err != nil {
			return err
		}
		defer f.fd.Close()
		if err = f.fill(s); err == nil {
			done, err = f.commit()
		}
		if !t.committed {
			err = errors.Join(err, f.remove())
		}
		return err
	})
	if t.committed {
		t.growing = nil
	}
	return done, t.Failure(err)
}

// fill gives the files their names in a folder.
func (f *newFolder) fill(s *Set) error {
	for i, file := range s.files {
		f.trying = s.names[i]
		if err := f.place(file, s.names[i]); err != nil {
			return fmt.Errorf("%s: %w", s.names[i], err)
		}
		file.name = ""
		f.names = append(f.names, s.names[i])
	}
	return nil
}
