package outfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A File is a file that grows. It has a partial name, or no name at all, until it is committed.
type File struct {
	*os.File
	target *Target
	name   string // partial name in the target's folder; "" without
}

// A Done says where a file stands.
type Done struct {
	Path     string
	Replaced bool // another file stood there
	Taken    bool // another file stands at the path that was wanted
	Files    int  // number of files, if Path is the folder of a [Set]
}

// ErrTaken says that another file stands at a name.
var ErrTaken = errors.New("another file has the name")

// Create makes a file that bears no name until it is committed: nothing is left of it if we are
// killed. Where the file system cannot do that, the file has a partial name.
func (t *Target) Create() (*File, error) {
	return t.create(func() (*File, error) {
		if unix.Access("/proc/self/fd", unix.X_OK) == nil {
			fd, err := unix.Openat(int(t.place.dir.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o666)
			if err == nil {
				return &File{File: os.NewFile(uintptr(fd), t.path), target: t}, nil
			}
			if errors.Is(err, fs.ErrPermission) {
				return nil, err
			}
		}
		return t.partial(0o666)
	})
}

// CreatePartial makes a file that bears a partial name until it is committed.
func (t *Target) CreatePartial() (*File, error) {
	return t.create(func() (*File, error) { return t.partial(0o644) })
}

// create makes a file.
func (t *Target) create(open func() (*File, error)) (f *File, err error) {
	err = t.as.Do(func() (err error) {
		f, err = open()
		return err
	})
	if err != nil {
		return nil, t.Failure(err)
	}
	t.mu.Lock()
	t.growing = append(t.growing, f)
	abandoned := t.abandoned
	t.mu.Unlock()
	if abandoned {
		return nil, errors.Join(t.Failure(errAbandoned), f.Discard())
	}
	return f, nil
}

// partial makes a file with a partial name. The name has our PID in it, so that a person can tell to
// which recorder it belongs.
func (t *Target) partial(mode uint32) (*File, error) {
	tail := fmt.Sprint(os.Getpid())
	for range 10 {
		name := tracelog.PartialName(t.place.name, tail)
		fd, err := unix.Openat(int(t.place.dir.Fd()), name,
			unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if err == nil {
			return &File{File: os.NewFile(uintptr(fd), t.shown(name)), target: t, name: name}, nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
		tail = fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()[:6])
	}
	return nil, unix.EEXIST
}

// mostNumbers bounds the numbers of names that are tried.
const mostNumbers = 10_000

var errAbandoned = errors.New("it was abandoned")

// Abandon removes the files that are being made at the target, and keeps them from being committed
// later. It returns false if a file was committed already. Any goroutine may call it.
func (t *Target) Abandon() (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.committed {
		return false, nil
	}
	t.abandoned = true
	var err error
	for len(t.growing) > 0 {
		err = errors.Join(err, t.growing[0].remove())
	}
	return true, err
}

// Commit gives a whole file its name: the target's, or if that is taken the first one with a number
// that is not.
func (f *File) Commit() (Done, error) {
	for n := f.target.first; n < mostNumbers; n++ {
		done, err := f.CommitAs(n)
		if !errors.Is(err, ErrTaken) {
			return done, err
		}
	}
	return Done{}, f.target.Failure(ErrTaken)
}

// CommitAs gives a whole file the target's Nth name. The error is ErrTaken if another file has it.
func (f *File) CommitAs(n int) (Done, error) {
	t := f.target
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		return Done{}, t.Failure(errAbandoned)
	}
	name := numbered(t.place.name, n)
	done := Done{Path: t.shown(name), Replaced: n == 1 && t.opts.Named && t.place.found != nil, Taken: n > 1}
	err := t.as.Do(func() error {
		if !done.Replaced {
			return f.give(name)
		}
		err := f.replace(name)
		if errors.Is(err, unix.ENOENT) { // somebody has removed the file meanwhile
			done.Replaced = false
			return f.give(name)
		}
		return err
	})
	if err == nil {
		t.forget(f)
		t.committed = true
	} else if !errors.Is(err, ErrTaken) {
		err = t.Failure(err)
	}
	return done, err
}

// give gives the file a name that no file has.
func (f *File) give(name string) error {
	err := f.giveIn(int(f.target.place.dir.Fd()), name)
	if errors.Is(err, unix.EEXIST) {
		return ErrTaken
	}
	if err == nil {
		f.name = name
	}
	return err
}

// giveIn gives the file a name in a folder that no file has there.
func (f *File) giveIn(to int, name string) error {
	if f.name == "" {
		return unix.Linkat(unix.AT_FDCWD, procPath(f.File), to, name, unix.AT_SYMLINK_FOLLOW)
	}
	from := int(f.target.place.dir.Fd())
	err := f.target.rename(from, f.name, to, name, unix.RENAME_NOREPLACE)
	if isUnknown(err) {
		err = f.link(from, to, name)
	}
	return err
}

// isUnknown reports whether a file system lacks a kind of rename: NFS, for instance.
func isUnknown(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

// link gives the file a name on a file system that cannot rename without replacing.
func (f *File) link(from, to int, name string) error {
	err := unix.Linkat(from, f.name, to, name, 0)
	if err == nil {
		return unix.Unlinkat(from, f.name, 0)
	}
	var s unix.Stat_t
	if errors.Is(err, unix.EEXIST) || unix.Fstatat(to, name, &s, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return unix.EEXIST
	}
	return unix.Renameat(from, f.name, to, name) // no links either
}

// lockPatience is the longest wait for others that replace a file in the same folder. Anybody can hold
// the lock of a folder that anybody can read.
const lockPatience = 2 * time.Second

// lockFolder keeps other recorders from replacing a file in the folder. While two change the names of
// files at the same time, each could take the other's file for what it found there. Where the folder
// cannot be locked, it goes without: then no file is lost, but two may have each other's names.
func lockFolder(dir int) (unlock func()) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	for until := time.Now().Add(lockPatience); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(until) {
			return func() { unix.Close(fd) }
		}
	}
}

// replace puts the file in the place of the one that was found there, and of no other: the two change
// names, which shows which one had the name.
func (f *File) replace(name string) error {
	dir, p := int(f.target.place.dir.Fd()), &f.target.place
	if f.name == "" {
		partial := tracelog.PartialName(name, fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()[:6]))
		if err := f.give(partial); err != nil {
			return err
		}
	}
	defer lockFolder(dir)()
	var s unix.Stat_t
	if err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if !p.isFound(&s) {
		return ErrTaken
	}
	err := f.target.rename(dir, f.name, dir, name, unix.RENAME_EXCHANGE)
	if isUnknown(err) {
		err = unix.Renameat(dir, f.name, dir, name)
		f.name = name
		return err
	}
	if err != nil {
		return err
	}
	if err := unix.Fstatat(dir, f.name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if p.isFound(&s) {
		err = unix.Unlinkat(dir, f.name, 0)
		f.name = name
		return err
	}
	return errors.Join(ErrTaken, f.target.rename(dir, f.name, dir, name, unix.RENAME_EXCHANGE))
}

// Move makes a file that grows one of another target in the same folder. A partial name stays as it is.
func (f *File) Move(to *Target) error {
	t := f.target
	var here, there unix.Stat_t
	if err := errors.Join(t.at(".", &here), to.at(".", &there)); err != nil {
		return to.Failure(err)
	}
	if here.Dev != there.Dev || here.Ino != there.Ino {
		return to.Failure(errors.New("it is in another folder"))
	}
	t.mu.Lock()
	t.forget(f)
	t.mu.Unlock()
	to.mu.Lock()
	defer to.mu.Unlock()
	f.target = to
	to.growing = append(to.growing, f)
	return nil
}

// Hide takes the file's name away: it lives on as long as it is open, and cannot be committed.
func (f *File) Hide() error {
	f.target.mu.Lock()
	defer f.target.mu.Unlock()
	return f.remove()
}

// Discard closes the file and removes it.
func (f *File) Discard() error {
	f.target.mu.Lock()
	defer f.target.mu.Unlock()
	err := f.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return errors.Join(err, f.remove())
}

// remove removes the file's partial name. target.mu is held.
func (f *File) remove() error {
	f.target.forget(f)
	if f.name == "" {
		return nil
	}
	name := f.name
	f.name = ""
	return f.target.as.Do(func() error { return unix.Unlinkat(int(f.target.place.dir.Fd()), name, 0) })
}

// forget takes a file from those that are being made. t.mu is held.
func (t *Target) forget(f *File) {
	t.growing = slices.DeleteFunc(t.growing, func(g *File) bool { return g == f })
}

// IsGone reports whether the file has no name any more, although it had one: somebody has removed it.
func (f *File) IsGone() bool {
	var s unix.Stat_t
	return f.name != "" && errors.Is(f.target.at(f.name, &s), unix.ENOENT)
}
