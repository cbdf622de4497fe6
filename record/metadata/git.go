package metadata

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// A Commit is the commit that the working tree of a folder was made from. What the tree has changed
// since is not known. A member is empty where it cannot be read.
type Commit struct {
	Revision string // hexadecimal
	Branch   string // or "" for a detached HEAD
	Remote   string // URL of the remote "origin", without credentials
}

// maxGitFile bounds what is read of a file of git.
const maxGitFile = 16 << 20

// A repository is the folders of a git repository.
type repository struct {
	own    string  // of the working tree: has HEAD
	common string  // of all working trees: has branches and configuration
	owner  *uint32 // the user to whom what is read must belong; nil for anybody
}

// Git returns the commit of a folder, from the files of the repository that the folder belongs to. With
// an owner, only files of that user are read: a recorder that runs as root for a user must not tell the
// user what others have. Without a repository the Commit is zero.
func Git(folder string, owner *uint32) Commit {
	r, ok := findRepository(folder, owner)
	if !ok {
		return Commit{}
	}
	head := strings.TrimSpace(r.read(r.own, "HEAD"))
	c := Commit{Remote: WithoutQuery(WithoutCredentials(r.remote()))}
	ref, symbolic := strings.CutPrefix(head, "ref: ")
	if !symbolic {
		c.Revision = revision(head)
		return c
	}
	if !isRef.MatchString(ref) || strings.Contains(ref, "..") {
		return c
	}
	c.Branch = strings.TrimPrefix(ref, "refs/heads/")
	c.Revision = r.resolve(ref)
	return c
}

// findRepository looks for .git in a folder and in those above it.
func findRepository(folder string, owner *uint32) (repository, bool) {
	if !filepath.IsAbs(folder) {
		return repository{}, false
	}
	r := repository{owner: owner}
	for ; ; folder = filepath.Dir(folder) {
		path := filepath.Join(folder, ".git")
		if info, err := os.Stat(path); err == nil {
			r.own = path
			if !info.IsDir() { // a working tree beside the first one, or a submodule
				r.own = in(folder, strings.TrimPrefix(strings.TrimSpace(r.read(folder, ".git")), "gitdir: "))
			}
			r.common = in(r.own, strings.TrimSpace(r.read(r.own, "commondir")))
			return r, true
		}
		if folder == filepath.Dir(folder) {
			return r, false
		}
	}
}

// in returns a path that is relative to a folder.
func in(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// resolve returns the revision that a reference names.
func (r *repository) resolve(ref string) string {
	for _, dir := range []string{r.own, r.common} {
		if rev := revision(strings.TrimSpace(r.read(dir, ref))); rev != "" {
			return rev
		}
	}
	for line := range strings.Lines(r.read(r.common, "packed-refs")) {
		if rev, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref {
			return revision(rev)
		}
	}
	return ""
}

var (
	isRef      = regexp.MustCompile(`^refs/[^\x00-\x20~^:?*\[\\]+$`)
	isRevision = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

func revision(text string) string {
	if isRevision.MatchString(text) {
		return text
	}
	return ""
}

// remote returns the URL of the remote "origin".
func (r *repository) remote() string {
	section := ""
	lines := bufio.NewScanner(strings.NewReader(r.read(r.common, "config")))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		if section == `[remote "origin"]` && strings.EqualFold(strings.TrimSpace(key), "url") {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

// read returns the text of a file, "" where it cannot be read. It never waits, as for a FIFO.
func (r *repository) read(folder, name string) string {
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if r.check(f) != nil {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, maxGitFile))
	if err != nil {
		return ""
	}
	return string(text)
}

var errForeign = errors.New("not a file of the user")

func (r *repository) check(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || !ok || (r.owner != nil && s.Uid != *r.owner) {
		return errForeign
	}
	return nil
}
