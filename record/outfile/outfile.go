// Package outfile makes the files that people ask for: logs and traces. Input: a path and bytes.
// Output: a file that gets its name when it is whole.
//
//   - A file that nobody named is never overwritten: a default name that is taken gets a number. A
//     path that a person named replaces the file that was there when the [Target] was made, and no
//     other: what another recording wrote there meanwhile stays.
//   - Under sudo everything is done with the rights of the user who called it: the kernel decides what that user may
//     make, replace and remove.
//   - A symbolic link is followed if it is the user's own or root's.
//   - Several files of one output get a folder beside the path: see [Set].
//
// All work goes through descriptors of the folder.
package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/invoker"
)

// Options say what may be written.
type Options struct {
	Named   bool // a person named the path
	Special bool // the path may be a pipe or a device, which is written to directly

	// Folder names the folder that several files get, from the name of a single file; nil if there is
	// a single file only. Then a path that ends in a slash is the folder, also of a single file.
	Folder func(name string) string

	// Manifest is the name of the file that lists the files of a tree; "" for what is no tree. The path is then the
	// folder, also of a single file, and the names of files have slashes.
	Manifest string
}

// A Target is a path where a file is to be made.
type Target struct {
	path  string // as a person knows it
	opts  Options
	as    *invoker.Invoker // whose rights are used; nil for our own
	place place
	first int // number of the first name to try

	folder  place // of several files, in the same folder as the place of a single one
	several bool  // a single file gets a folder, too

	rename func(fromDir int, from string, toDir int, to string, flags uint) error // unix.Renameat2

	mu        sync.Mutex
	growing   []*File // that are being made
	abandoned bool
	committed bool
}

// At returns a target. An error says why no file can be made there.
func At(path string, o Options) (*Target, error) {
	as := invoker.Find()
	t := &Target{path: path, opts: o, as: as, first: 1, rename: unix.Renameat2}
	if o.Manifest != "" {
		t.opts.Folder = func(name string) string { return name }
	}
	if o.Manifest != "" || o.Folder != nil && strings.HasSuffix(path, "/") {
		t.several, path = true, trimSlashes(path)
	}
	err := as.Do(func() error { return t.place.find(path, as.User(), o.Named) })
	if err == nil && t.opts.Folder != nil && !t.IsSpecial() {
		err = as.Do(t.findFolder)
	}
	if err == nil {
		err = t.check()
	}
	if err != nil {
		t.Close()
		return nil, t.Failure(err)
	}
	return t, nil
}

// check says why what is at the path cannot be replaced. Nobody has named a default path: then what
// is there does not matter.
func (t *Target) check() error {
	if t.opts.Manifest != "" && t.opts.Named && t.place.found != nil && t.place.stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return errors.New("it is not a folder: " + otherName)
	}
	if !t.opts.Named || t.place.found == nil || t.several {
		return nil
	}
	switch kind := t.place.stat.Mode & unix.S_IFMT; {
	case isReplaceable(kind) && !t.place.direct:
		return nil
	case kind == unix.S_IFDIR && t.folder.name == t.place.name:
		return nil
	case kind == unix.S_IFDIR:
		return errFolder
	case !t.opts.Special:
		return errors.New("it is not a regular file")
	}
	return t.place.trustSpecial()
}

var errFolder = errors.New("a folder of that name is in the way")

// IsSpecial reports whether the target is a pipe or a device, or a file that is open already.
func (t *Target) IsSpecial() bool {
	kind := t.place.stat.Mode & unix.S_IFMT
	return t.opts.Named && t.place.found != nil && (t.place.direct || !isReplaceable(kind) && kind != unix.S_IFDIR)
}

// isReplaceable reports whether another file may take the place of a file of that kind: a regular file, or
// a link to nothing.
func isReplaceable(kind uint32) bool { return kind == unix.S_IFREG || kind == unix.S_IFLNK }

// IsFile reports whether a path leads to the file that stands at the target.
func (t *Target) IsFile(path string) bool {
	var s unix.Stat_t
	return t.opts.Named && unix.Stat(path, &s) == nil && t.place.isFound(&s)
}

// OpenSpecial opens the pipe or the device to write to it.
func (t *Target) OpenSpecial() (f *os.File, err error) {
	err = t.as.Do(func() (err error) {
		f, err = os.OpenFile(procPath(t.place.found), os.O_WRONLY, 0)
		return err
	})
	if err != nil {
		err = t.Failure(err)
	}
	return f, err
}

// IsTaken reports whether another file stands at the Nth name of the target.
func (t *Target) IsTaken(n int) bool {
	var s unix.Stat_t
	if t.at(numbered(t.place.name, n), &s) != nil {
		return false
	}
	return n > 1 || !t.opts.Named || t.place.found == nil || !t.place.isFound(&s)
}

// From makes the target try its names from the Nth on.
func (t *Target) From(n int) { t.first = n }

// at examines a name in the target's folder.
func (t *Target) at(name string, s *unix.Stat_t) error {
	return t.as.Do(func() error {
		return unix.Fstatat(int(t.place.dir.Fd()), name, s, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Close lets go of the target.
func (t *Target) Close() {
	t.place.close()
	t.folder.close()
}

// Failure says why the file cannot be made; nil for no error.
func (t *Target) Failure(err error) error {
	if err == nil {
		return nil
	}
	if t.as != nil && errors.Is(err, fs.ErrPermission) {
		return &permissionError{fmt.Sprintf("cannot write %s: user %d, who called sudo, has no permission in folder %s; %s",
			t.path, t.as.UID, filepath.Dir(t.path), errno.OtherPlace)}
	}
	if errors.Is(err, fs.ErrPermission) {
		return &permissionError{errno.Writing(t.path, err).Error()}
	}
	return errno.Writing(t.path, err)
}

// A permissionError is the message for a lack of rights.
type permissionError struct{ msg string }

func (e *permissionError) Error() string        { return e.msg }
func (e *permissionError) Is(target error) bool { return target == fs.ErrPermission }

// suffixes are those in front of which a number stands.
var suffixes = []string{
	".repaired.cudatrace", ".cudatrace", ".pftrace", ".pt.trace.json.gz", ".pt.trace.json", ".pt.trace",
}

// numbered is the Nth name: "a.pftrace", "a-2.pftrace", ...
func numbered(name string, n int) string {
	if n <= 1 {
		return name
	}
	suffix := suffixOf(name)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, suffix), n, suffix)
}

// suffixOf is the part of a name that says what is in the file.
func suffixOf(name string) string {
	for _, s := range suffixes {
		if strings.HasSuffix(name, s) {
			return s
		}
	}
	return filepath.Ext(name)
}

// shown is the path of a name in the target's folder, for a person.
func (t *Target) shown(name string) string {
	path := trimSlashes(t.path)
	if name == t.place.name {
		return path
	}
	dir, _ := filepath.Split(path)
	if t.place.followed {
		if real, err := os.Readlink(procPath(t.place.dir)); err == nil {
			dir = real + "/"
		}
	}
	return dir + name
}

// trimSlashes takes the slashes from a path's end, but not the root folder's.
func trimSlashes(path string) string {
	if rest := strings.TrimRight(path, "/"); rest != "" {
		return rest
	}
	return path
}
