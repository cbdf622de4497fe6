package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// The version is that of the first heading of CHANGELOG.md. What is not released, or is changed, has its commit.
func TestVersion(t *testing.T) {
	t.Parallel()
	script := must.Get(os.ReadFile("version.sh"))(t)
	for _, of := range []struct {
		heading       string
		clone, change bool
		want          string
	}{
		{"## 1.2.3 (2026-12-31)", true, false, `^1\.2\.3\n$`},
		{"## 1.2.3 (2026-12-31)", true, true, `^1\.2\.3\+g[0-9a-f]{12}\.dirty\n$`},
		{"## 1.2.3-rc1 (2026-12-31)", false, false, `^1\.2\.3-rc1\n$`},
		{"## 1.2.3 (not released yet)", true, false, `^1\.2\.3-dev\+g[0-9a-f]{12}\n$`},
		{"## 1.2.3 (not released yet)", false, false, `^1\.2\.3-dev\n$`},
		{"## Not released yet", true, false, ""},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"packaging/version.sh": string(script), "CHANGELOG.md": "# Changes\n\n" + of.heading + "\n\n## 1.0.0 (2025-01-01)\n"} {
			path := filepath.Join(dir, name)
			must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.Do(t, os.WriteFile(path, []byte(text), 0o755))
		}
		if of.clone {
			git := []string{"git", "-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"}
			output(t, append(git, "init", "-q")...)
			output(t, append(git, "add", ".")...)
			output(t, append(git, "commit", "-q", "-m", "first")...)
		}
		if of.change {
			must.Do(t, os.WriteFile(filepath.Join(dir, "packaging/version.sh"), append(script, '\n'), 0o755))
		}
		cmd := exec.Command("sh", filepath.Join(dir, "packaging/version.sh"))
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		got, err := cmd.Output()
		if of.want == "" {
			if err == nil {
				t.Errorf("%s: %q", of.heading, got)
			}
			continue
		}
		if err != nil || !regexp.MustCompile(of.want).Match(got) {
			t.Errorf("%s, a clone %v, changed %v: %q, %v", of.heading, of.clone, of.change, got, err)
		}
	}
}
