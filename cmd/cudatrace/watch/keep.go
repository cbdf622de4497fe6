package watch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cudatrace/cudatrace/record/invoker"
)

// windowTime is the form of the moment in names of files.
const windowTime = "20060102T150405Z"

// windowFile matches the names of a window's files: JOB-HOST-TIME.cudatrace, unfinished ones and tables, too.
var windowFile = regexp.MustCompile(`^(.+-([0-9]{8}T[0-9]{6}Z))\.[A-Za-z0-9.-]+$`)

// base is the name of a window's files, without suffix.
func base(job, host string, at time.Time) string {
	return plain(job) + "-" + plain(host) + "-" + at.UTC().Format(windowTime)
}

// longestName bounds the parts of a name.
const longestName = 80

// plain is a name of letters, digits and few signs.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, name)
	return strings.TrimLeft(name[:min(len(name), longestName)], ".")
}

// A kept is a window whose files are in the folder.
type kept struct {
	stem, at string
	files    []string
	bytes    int64
}

// mostAhead is how far another host's clock may be ahead.
const mostAhead = time.Minute

// windows lists the windows in a folder, the oldest first. Those of the future are from before the clock was set back.
func windows(folder string, now time.Time) (list []*kept, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	by := make(map[string]*kept)
	for _, e := range entries {
		m := windowFile.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		k := by[m[1]]
		if k == nil {
			k = &kept{stem: m[1], at: m[2]}
			by[m[1]], list = k, append(list, k)
		}
		k.files = append(k.files, e.Name())
		k.bytes += used(filepath.Join(folder, e.Name()))
	}
	last := now.Add(mostAhead).UTC().Format(windowTime)
	slices.SortFunc(list, func(a, b *kept) int {
		if (a.at > last) != (b.at > last) {
			return strings.Compare(b.at, a.at)
		}
		return strings.Compare(a.at+a.stem, b.at+b.stem)
	})
	return list, nil
}

// used is the room that a file, or all in a folder, takes on disk. What vanishes meanwhile takes none.
func used(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += s.Blocks * 512
			}
		}
		return nil
	})
	return bytes
}

// tidy removes the oldest windows of a folder until they take no more than some bytes, and are no more than some; 0 is
// no bound. It returns how many are left.
func tidy(folder string, now time.Time, bytes int64, most int) (left int, err error) {
	err = removeSome(folder, now, func(list []*kept) []*kept {
		total, n := int64(0), 0
		for _, k := range list {
			total += k.bytes
		}
		for ; n < len(list) && (total > bytes || most > 0 && len(list)-n > most); n++ {
			total -= list[n].bytes
		}
		left = len(list) - n
		return list[:n]
	})
	return left, err
}

// remove removes what a window that failed has left.
func remove(folder, stem string) error {
	return removeSome(folder, time.Time{}, func(list []*kept) []*kept {
		return slices.DeleteFunc(list, func(k *kept) bool { return k.stem != stem })
	})
}

// removeSome removes windows of a folder with the rights of the user who called sudo. Files that are no window's stay.
func removeSome(folder string, now time.Time, which func([]*kept) []*kept) error {
	return invoker.Find().Do(func() error {
		root, err := os.OpenRoot(folder)
		if err != nil {
			return err
		}
		defer root.Close()
		list, err := windows(folder, now)
		for _, k := range which(list) {
			for _, name := range k.files {
				err = errors.Join(err, root.RemoveAll(name))
			}
		}
		return err
	})
}
