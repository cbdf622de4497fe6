// Package packaging tests what `make release` made: `make package-test` names its folder in CUDATRACE_RELEASE.
package packaging

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// release returns the folder of the release, and its version.
func release(t *testing.T) (folder, version string) {
	t.Helper()
	folder = os.Getenv("CUDATRACE_RELEASE")
	if folder == "" {
		t.Skip("run `make package-test` in the root of the repository")
	}
	archive := theFile(t, filepath.Join(folder, "cudatrace-*-linux-amd64.tar.gz"))
	version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), "cudatrace-"), "-linux-amd64.tar.gz")
	return folder, version
}

// theFile is the only file that matches a pattern.
func theFile(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %q, %v", pattern, files, err)
	}
	return files[0]
}

// output runs a command, and returns what it prints.
func output(t *testing.T, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s%s", command, err, stderr.String(), out)
	}
	return string(out)
}

// installed are the files of an installation, and words of their contents.
var installed = map[string]string{
	"usr/bin/cudatrace":                                            "\x7fELF",
	"usr/share/man/man1/cudatrace-record.1.gz":                     "\x1f\x8b",
	"usr/share/man/man1/cudatrace.1.gz":                            "\x1f\x8b",
	"usr/share/bash-completion/completions/cudatrace":              "complete -F _cudatrace cudatrace",
	"usr/share/fish/vendor_completions.d/cudatrace.fish":           "complete -c cudatrace",
	"usr/share/zsh/{site-functions,vendor-completions}/_cudatrace": "#compdef cudatrace",
	"usr/share/doc/cudatrace/{copyright,LICENSE}":                  "Apache License",
	"usr/share/doc/cudatrace/{copyright,THIRD-PARTY-LICENSES}":     "github.com/cilium/ebpf v",
	"usr/share/doc/cudatrace/docs/architecture.md":                 "# ",
	"usr/share/doc/cudatrace/ci.sh":                                "gate()",
}

// wantInstalled checks the files below a root, and the program's version.
func wantInstalled(t *testing.T, root, arch, version string) {
	t.Helper()
	for pattern, want := range installed {
		var text []byte
		for _, name := range alternatives(pattern) {
			if data, err := os.ReadFile(filepath.Join(root, name)); err == nil {
				text = data
			}
		}
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s is missing, or lacks %q", pattern, want)
		}
	}
	got := output(t, append(emulator(arch), filepath.Join(root, "usr/bin/cudatrace"), "--version")...)
	if !strings.HasPrefix(got, "cudatrace "+version+" (go") || !strings.HasSuffix(got, " linux/"+arch+")\n") {
		t.Errorf("--version prints %q; the version is %s, the architecture %s", got, version, arch)
	}
}

// alternatives are the names that a pattern with braces has.
func alternatives(pattern string) []string {
	before, rest, ok := strings.Cut(pattern, "{")
	if !ok {
		return []string{pattern}
	}
	inside, after, _ := strings.Cut(rest, "}")
	var names []string
	for name := range strings.SplitSeq(inside, ",") {
		names = append(names, before+name+after)
	}
	return names
}

// emulator is the command that runs programs of an architecture on this machine.
func emulator(arch string) []string {
	if arch == "arm64" {
		return []string{"qemu-aarch64"}
	}
	return nil
}

// wantEmpty checks that a removed package has left nothing below usr.
func wantEmpty(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "usr"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDeb installs, checks and removes the .deb packages in a root of their own.
func TestDeb(t *testing.T) {
	t.Parallel()
	folder, version := release(t)
	for _, arch := range []string{"amd64", "arm64"} {
		root := t.TempDir()
		for _, name := range []string{"info", "updates", "triggers"} {
			must.Do(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg", name), 0o755))
		}
		must.Do(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644))
		dpkg := []string{"dpkg", "--root=" + root, "--force-architecture", "--log=" + os.DevNull}
		output(t, append(dpkg, "--install", theFile(t, filepath.Join(folder, "cudatrace_*_"+arch+".deb")))...)
		wantInstalled(t, root, arch, version)
		if fields := output(t, "dpkg-deb", "--field", theFile(t, filepath.Join(folder, "cudatrace_*_"+arch+".deb")), "Homepage", "Maintainer"); !strings.Contains(fields, "Homepage: https://") || !strings.Contains(fields, "Maintainer: cudatrace maintainers <"+contact(t)+">") {
			t.Errorf("%s: %s", arch, fields)
		}
		if wrong := output(t, append(dpkg, "--verify", "cudatrace")...); wrong != "" {
			t.Errorf("%s: dpkg --verify: %s", arch, wrong)
		}
		output(t, append(dpkg, "--purge", "cudatrace:"+arch)...)
		wantEmpty(t, root)
	}
}

// contact is the address that SECURITY.md names.
func contact(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile("../SECURITY.md"))(t)
	_, behind, _ := strings.Cut(string(text), "[privately](")
	address, _, ok := strings.Cut(behind, ")")
	if !ok {
		t.Fatal("SECURITY.md does not say how to report a hole privately")
	}
	return address
}

// TestRPM installs, checks and removes the .rpm packages in a root of their own.
func TestRPM(t *testing.T) {
	t.Parallel()
	folder, version := release(t)
	for arch, name := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		root := t.TempDir()
		rpm := []string{"rpm", "--root", root}
		if out, err := exec.Command("rpm", "--help").Output(); err == nil && bytes.Contains(out, []byte("--force-debian")) {
			rpm = append(rpm, "--force-debian")
		}
		output(t, append(rpm, "--install", "--ignorearch", theFile(t, filepath.Join(folder, "cudatrace-*."+name+".rpm")))...)
		wantInstalled(t, root, arch, version)
		if fields := output(t, append(rpm, "--query", "--queryformat", "%{URL} %{PACKAGER}", "cudatrace")...); !strings.Contains(fields, "https://") || !strings.Contains(fields, "cudatrace maintainers <"+contact(t)+">") {
			t.Errorf("%s: %s", arch, fields)
		}
		if wrong := output(t, append(rpm, "--verify", "cudatrace")...); wrong != "" {
			t.Errorf("%s: rpm --verify: %s", arch, wrong)
		}
		output(t, append(rpm, "--erase", "cudatrace")...)
		wantEmpty(t, root)
	}
}

// TestInstall: make uninstall leaves nothing of what make install installs.
func TestInstall(t *testing.T) {
	t.Parallel()
	release(t)
	root := t.TempDir()
	where := []string{"DESTDIR=" + root, "PREFIX=/opt/x"}
	output(t, append([]string{"make", "-s", "-C", "..", "install"}, where...)...)
	for _, name := range []string{"bin/cudatrace", "share/man/man1/cudatrace-stats.1", "share/doc/cudatrace/LICENSE", "share/zsh/site-functions/_cudatrace"} {
		if info, err := os.Stat(filepath.Join(root, "opt/x", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	output(t, append([]string{"make", "-s", "-C", "..", "uninstall"}, where...)...)
	must.Do(t, os.Rename(filepath.Join(root, "opt/x"), filepath.Join(root, "usr")))
	wantEmpty(t, root)
}

// unpack unpacks the archive of an architecture, and returns the command that runs its program here.
func unpack(t *testing.T, arch string) (command []string) {
	t.Helper()
	folder, version := release(t)
	root := t.TempDir()
	output(t, "tar", "-C", root, "-xf", filepath.Join(folder, "cudatrace-"+version+"-linux-"+arch+".tar.gz"))
	return append(emulator(arch), filepath.Join(root, "cudatrace-"+version+"-linux-"+arch, "bin/cudatrace"))
}

// TestReaders: each command that reads logs writes the same bytes on both architectures.
func TestReaders(t *testing.T) {
	t.Parallel()
	amd64, arm64 := unpack(t, "amd64"), unpack(t, "arm64")
	log := must.Get(filepath.Abs("../testdata/gpu/logs/streams.cudatrace"))(t)
	data := must.Get(os.ReadFile(log))(t)
	cut := filepath.Join(t.TempDir(), "cut.cudatrace")
	must.Do(t, os.WriteFile(cut, data[:9000], 0o644))
	for _, args := range []string{
		"convert LOG -o OUT.pftrace", "convert LOG -o OUT.pftrace --compress none --from 0.1", "convert LOG --format chrome -o OUT.json.gz",
		"stats LOG --report all", "stats LOG --format json", "info LOG --format json", "dump LOG", "dump LOG --format ndjson", "diff LOG LOG --significance none --format json",
		"repair CUT -o OUT.cudatrace", "probes", "man record",
	} {
		args = strings.NewReplacer("LOG", log, "CUT", cut, "OUT", "out").Replace(args)
		want, got := results(t, amd64, args), results(t, arm64, args)
		if want != got {
			t.Errorf("%s: amd64 and arm64 differ: %d and %d bytes", args, len(want), len(got))
		}
		if len(want) < 200 {
			t.Errorf("%s: %q", args, want)
		}
	}
}

// results runs a command in a folder of its own, and returns what it prints and writes there.
func results(t *testing.T, command []string, args string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(command[0], append(command[1:], strings.Fields(args)...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", args, err, out)
	}
	all := string(out)
	files := must.Get(filepath.Glob(filepath.Join(dir, "*")))(t)
	for _, file := range files {
		data := must.Get(os.ReadFile(file))(t)
		all += filepath.Base(file) + "\n" + string(data)
	}
	return all
}

// usesModule reads a log by the Python module, in words that a test compares.
const usesModule = `
import cudatrace, os, sys, warnings
print(open(os.path.join(os.path.dirname(cudatrace.__file__), "docs", "json.md")).readline(), end="")
cudatrace.step()
with cudatrace.range("not recorded"):
    pass
run = cudatrace.load(sys.argv[1])
print(len(run["work"]["dur_ns"]), len({len(c) for c in run["work"].values()}))
print("</html>" in cudatrace.report(sys.argv[1])._repr_html_().replace("&lt;", "<").replace("&gt;", ">"))
try:
    cudatrace.load("/missing")
except cudatrace.Error as e:
    print(e)
`

// TestWheel installs the wheel in an environment without a network, uses it, and removes it.
func TestWheel(t *testing.T) {
	t.Parallel()
	folder, _ := release(t)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	theFile(t, filepath.Join(folder, "*_aarch64.whl"))
	environment := filepath.Join(t.TempDir(), "environment")
	output(t, "python3", "-m", "venv", environment)
	python := filepath.Join(environment, "bin", "python")
	output(t, python, "-m", "pip", "install", "-q", "--no-index", theFile(t, filepath.Join(folder, "*_x86_64.whl")))
	version := output(t, filepath.Join(environment, "bin", "cudatrace"), "--version")
	if again := output(t, python, "-m", "cudatrace", "--version"); again != version || !strings.HasPrefix(version, "cudatrace ") {
		t.Errorf("the program says %q, the module %q", version, again)
	}
	const want = "# JSON\n423 1\nTrue\ncudatrace: /missing cannot be opened: no such file or directory\n"
	log := filepath.Join("..", "testdata", "gpu", "logs", "streams.cudatrace")
	if got := output(t, python, "-c", usesModule, log); got != want {
		t.Errorf("the module says %q, want %q", got, want)
	}
	output(t, python, "-m", "pip", "uninstall", "-q", "-y", "cudatrace")
	left, err := filepath.Glob(filepath.Join(environment, "*", "cudatrace*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
}

// TestContainerfile: the release has what Containerfile adds and copies, for both architectures. TestContainer builds
// the images where there is a builder.
func TestContainerfile(t *testing.T) {
	t.Parallel()
	folder, version := release(t)
	text := must.Get(os.ReadFile("Containerfile"))(t)
	added := regexp.MustCompile(`(?m)^ADD (\S+) /$`).FindStringSubmatch(string(text))
	copied := regexp.MustCompile(`(?m)^COPY --from=archive (\S+) (\S+)$`).FindAllStringSubmatch(string(text), -1)
	if added == nil || len(copied) != 2 {
		t.Fatalf("Containerfile adds %q and copies %q", added, copied)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		archive := theFile(t, filepath.Join(folder, strings.ReplaceAll(added[1], "${TARGETARCH}", arch)))
		stage, image := t.TempDir(), t.TempDir()
		output(t, "tar", "-xf", archive, "-C", stage)
		for _, c := range copied {
			from, to := theFile(t, filepath.Join(stage, c[1])), filepath.Join(image, c[2])
			must.Do(t, os.MkdirAll(to, 0o755))
			output(t, "cp", "-r", from+"/.", to)
		}
		for _, program := range []string{"cudatrace", "usr/local/bin/cudatrace"} {
			got := output(t, append(emulator(arch), filepath.Join(image, program), "--version")...)
			if !strings.HasPrefix(got, "cudatrace "+version+" ") || !strings.Contains(got, "linux/"+arch) {
				t.Errorf("%s of the image for %s is %s", program, arch, got)
			}
		}
	}
}

// TestChecksums: SHA256SUMS has each file of the release.
func TestChecksums(t *testing.T) {
	t.Parallel()
	folder, _ := release(t)
	sums := filepath.Join(folder, "SHA256SUMS")
	text := must.Get(os.ReadFile(sums))(t)
	cmd := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	files, err := os.ReadDir(folder)
	if n := strings.Count(string(text), "\n"); err != nil || n != len(files)-1 || n != 10 {
		t.Errorf("%v: %d checksums of %d files", err, n, len(files)-1)
	}
}

// TestSBOM: the lists have the modules that the programs themselves name, with checksums, and the checksum of the program.
func TestSBOM(t *testing.T) {
	t.Parallel()
	folder, version := release(t)
	for _, arch := range []string{"amd64", "arm64"} {
		program := unpack(t, arch)
		path := program[len(program)-1]
		var want []string
		for _, m := range regexp.MustCompile(`\tdep\t(\S+)\t(\S+)\th1:(\S+)`).FindAllStringSubmatch(output(t, "go", "version", "-m", path), -1) {
			sum := must.Get(base64.StdEncoding.DecodeString(m[3]))(t)
			want = append(want, fmt.Sprintf("%s %s %x", m[1], m[2], sum))
		}
		text := must.Get(os.ReadFile(filepath.Join(folder, "cudatrace-"+version+"-linux-"+arch+".cdx.json")))(t)
		var bom struct {
			Metadata struct {
				Component struct{ Version, PURL string }
			}
			Components []struct {
				Name, Version string
				Hashes        []struct{ Alg, Content string }
			}
		}
		must.Do(t, json.Unmarshal(text, &bom))
		var got []string
		for _, c := range bom.Components {
			if c.Name != "std" {
				got = append(got, c.Name+" "+c.Version)
				for _, h := range c.Hashes {
					got[len(got)-1] += " " + h.Content
				}
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) || len(got) < 4 || len(got) == len(bom.Components) || bom.Metadata.Component.Version != version ||
			!strings.Contains(bom.Metadata.Component.PURL, "goarch="+arch) {
			t.Errorf("%s: %+v, want %q", arch, bom, want)
		}
		content := must.Get(os.ReadFile(path))(t)
		if len(content) > 36<<20 {
			t.Errorf("%s: the program has %d bytes", arch, len(content))
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(content)); !strings.Contains(string(text), sum) {
			t.Errorf("%s: the list lacks the checksum %s of the program", arch, sum)
		}
	}
}
