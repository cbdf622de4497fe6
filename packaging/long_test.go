package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// longRelease returns the folder of the release and its version, for the slow tests.
func longRelease(t *testing.T) (folder, version string) {
	t.Helper()
	if os.Getenv("CUDATRACE_LONG") == "" {
		t.Skip("run `make test-long` in the root of the repository")
	}
	return release(t)
}

// TestReproducible: a second release, from a copy of the sources, has the same bytes.
func TestReproducible(t *testing.T) {
	t.Parallel()
	folder, version := longRelease(t)
	sums := must.Get(os.ReadFile(filepath.Join(folder, "SHA256SUMS")))(t)
	info := must.Get(os.ReadFile(filepath.Join(folder, "cudatrace-"+version+"-linux-amd64.cdx.json")))(t)
	_, rest, _ := strings.Cut(string(info), `"timestamp": "`)
	date, _, _ := strings.Cut(rest, `"`)
	dir := t.TempDir()
	cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", `
		mkdir sources
		git -C "$ROOT" ls-files -z -co --exclude-standard | tar -C "$ROOT" --null -T - -cf - | tar -C sources -xf -
		SOURCE_DATE_EPOCH=$(date -d "$DATE" +%s) sources/packaging/release.sh "$PWD/again"`)
	cmd.Dir = dir
	root := must.Get(filepath.Abs(".."))(t)
	cmd.Env = append(os.Environ(), "ROOT="+root, "DATE="+date, "VERSION="+version)
	must.Run(t, cmd)
	again, err := os.ReadFile(filepath.Join(dir, "again", "SHA256SUMS"))
	if err != nil || string(again) != string(sums) {
		t.Errorf("%v: the second release has other checksums:\n%s\nthe first:\n%s", err, again, sums)
	}
}

// TestNewUser goes from nothing to the first finding in a Debian with Python alone.
func TestNewUser(t *testing.T) {
	folder, _ := longRelease(t)
	got := output(t, "./newuser.sh", folder, filepath.Join("..", "build", "sim"), filepath.Join(t.TempDir(), "root"))
	for _, want := range []string{
		"trained 40 steps\n", "findings: what limits the run, and what to do\n  1. ", "prepare_batch",
		"120 pieces of GPU work\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it prints %q, without %q", got, want)
		}
	}
}

// TestContainer builds images by the recipe, and runs their programs.
func TestContainer(t *testing.T) {
	folder, version := longRelease(t)
	store := t.TempDir()
	buildah := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(output(t, append([]string{"buildah", "--storage-driver", "vfs", "--root", store, "--runroot", filepath.Join(store, "run")}, args...)...))
	}
	t.Cleanup(func() { buildah("rm", "--all") })
	build := func(args ...string) string {
		t.Helper()
		return buildah(append(append([]string{"build", "--quiet", "--isolation", "chroot", "-f", "Containerfile"}, args...), folder)...)
	}
	binary := buildah("from", build("--target", "binary", "--platform", "linux/amd64"))
	got := output(t, filepath.Join(buildah("mount", binary), "cudatrace"), "--version")
	if !strings.Contains(got, " "+version+" ") {
		t.Errorf("the stage binary has %s", got)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		container := buildah("from", "--platform", "linux/"+arch, build("--platform", "linux/"+arch))
		program := filepath.Join(buildah("mount", container), "usr/local/bin/cudatrace")
		if got := output(t, append(emulator(arch), program, "--version")...); !strings.Contains(got, " "+version+" ") || !strings.Contains(got, "linux/"+arch) {
			t.Errorf("the image for %s has %s", arch, got)
		}
	}
}
