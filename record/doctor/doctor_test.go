package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// fakeRoot makes a file system with files of given contents. An empty one in /dev is a file that can be
// opened, "-" one that nobody can open.
func fakeRoot(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		var err error
		if text == "-" {
			err = unix.Mknod(path, unix.S_IFSOCK|0o600, 0) // opening a socket fails, for root, too
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder)\nGCC version:  gcc version 12.2.0\n"
	first   = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 120\nGPU UUID: \t GPU-1\nBus Location: \t 0000:01:00.0\nDevice Minor: \t 0\n"
	second  = "Model: \t\t NVIDIA H200\nDevice Minor: \t 1\n"
)

func TestDriver(t *testing.T) {
	t.Parallel()
	gpus := map[string]string{
		"/proc/driver/nvidia/version":                       version,
		"/proc/driver/nvidia/gpus/0000:01:00.0/information": first, "/proc/driver/nvidia/gpus/0000:02:00.0/information": second,
		"/dev/nvidia0": "", "/dev/nvidia1": "",
	}
	with := func(name, text string) map[string]string {
		files := map[string]string{name: text}
		for n, text := range gpus {
			if _, changed := files[n]; !changed {
				files[n] = text
			}
		}
		return files
	}
	for name, c := range map[string]struct {
		files  map[string]string
		env    []string
		module Status
		gpus   Status
		found  string
	}{
		"two":            {files: gpus, module: OK, gpus: OK, found: "2 × NVIDIA H200"},
		"one of two":     {files: with("/dev/nvidia1", "-"), module: OK, gpus: OK, found: "NVIDIA H200"},
		"no module":      {module: Note},
		"no GPU":         {files: map[string]string{"/proc/driver/nvidia/version": version}, module: OK, gpus: Nothing, found: "no GPU"},
		"none is usable": {files: func() map[string]string { f := with("/dev/nvidia1", "-"); f["/dev/nvidia0"] = "-"; return f }(), module: OK, gpus: Nothing, found: "/dev/nvidia0 cannot be opened: no such device or address"},
		"chosen":         {files: gpus, env: []string{"CUDA_VISIBLE_DEVICES=1"}, module: OK, gpus: OK, found: "CUDA_VISIBLE_DEVICES=1"},
		"hidden":         {files: gpus, env: []string{"CUDA_VISIBLE_DEVICES="}, module: OK, gpus: Nothing, found: "CUDA_VISIBLE_DEVICES="},
	} {
		t.Run(name, func(t *testing.T) {
			x := &examination{root: fakeRoot(t, c.files), opts: Options{Env: c.env}}
			x.lookAtModule()
			x.lookAtGPUs()
			if !x.has(checkModule, c.module) || c.gpus != "" && !x.has(checkGPUs, c.gpus) || c.gpus == "" && len(x.checks) > 1 {
				t.Fatalf("%+v", x.checks)
			}
			if last := x.checks[len(x.checks)-1]; !strings.Contains(last.Found, c.found) {
				t.Errorf("%q, want %q", last.Found, c.found)
			}
			if c.module == OK && x.driver != "580.159.04" {
				t.Errorf("version %q", x.driver)
			}
		})
	}
}

// The driver says in its parameters who may read the GPUs' counters.
func TestMetrics(t *testing.T) {
	t.Parallel()
	const params = "/proc/driver/nvidia/params"
	for name, c := range map[string]struct {
		files  map[string]string
		root   bool
		status Status // "": no line
	}{
		"no driver":           {files: map[string]string{}},
		"everybody":           {files: map[string]string{params: "EnableMSI: 1\nRmProfilingAdminOnly: 0\n"}, status: OK},
		"administrators":      {files: map[string]string{params: "EnableMSI: 1\nRmProfilingAdminOnly: 1\n"}, status: Note},
		"administrators, one": {files: map[string]string{params: "RmProfilingAdminOnly: 1\n"}, root: true, status: OK},
		"not said":            {files: map[string]string{params: "EnableMSI: 1\n"}, status: Note},
	} {
		t.Run(name, func(t *testing.T) {
			x := &examination{root: fakeRoot(t, c.files)}
			x.lookAtMetrics(c.root)
			if len(x.checks) > 1 || len(x.checks) == 1 && x.checks[0].Status != c.status || len(x.checks) == 0 && c.status != "" {
				t.Errorf("%+v", x.checks)
			}
		})
	}
}

// A driver runs CUDA up to the release that came with it.
func TestCUDAMajor(t *testing.T) {
	for driver, want := range map[string]uint32{"580.65.06": 13, "575.57.08": 12, "525.60.13": 12, "520.61.05": 11, "450.36.06": 11, "418.39": 0, "": 0, "x": 0} {
		if got := cudaMajor(driver); got != want {
			t.Errorf("driver %q: CUDA %d, want %d", driver, got, want)
		}
	}
}

// A libcupti that is newer than the driver is not used, and named.
func TestNoCUPTI(t *testing.T) {
	for _, c := range []struct {
		t      target
		tooNew string
		found  string
		remedy string
	}{
		{target{path: "/app"}, "/lib/libcupti.so.13", "/lib/libcupti.so.13 is newer than the driver 550.54.14", "CUPTI of CUDA 12"},
		{target{path: "/app"}, "", "no libcupti is found", "install"},
		{target{}, "", "looks beside its libraries", "install"},
	} {
		got := noCUPTI(&c.t, c.tooNew, "550.54.14")
		if got.Status != Less || !strings.Contains(got.Found, c.found) || !strings.Contains(got.Remedy, c.remedy) {
			t.Errorf("%+v", got)
		}
	}
}

func TestParseList(t *testing.T) {
	const list = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibcudart.so.13 => /a b/libcudart.so.13 (0x00007f36)\n\tlibmissing.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f36)\n"
	if got := parseList([]byte(list)); !slices.Equal(got, []string{"/a b/libcudart.so.13"}) {
		t.Errorf("%q", got)
	}
}

func FuzzParseList(f *testing.F) {
	f.Add([]byte("\tlibc.so.6 => /lib/libc.so.6 (0x00007f36)\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, path := range parseList(text) {
			if !filepath.IsAbs(path) {
				t.Errorf("%q", path)
			}
		}
	})
}

func TestInterpreter(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"#!/usr/bin/python3\n": "/usr/bin/python3", "#! /bin/sh -e\n": "/bin/sh", "#!/usr/bin/env python3\n": "python3",
		"#!/usr/bin/env -S A=1 python3 -u\n": "python3", "#!/usr/bin/env\n": "/usr/bin/env", "#!\n": "", "\x7fELF": "", "": "", "#!/no/end": "/no/end",
	} {
		path := filepath.Join(dir, "script")
		must.Do(t, os.WriteFile(path, []byte(text), 0o700))
		if got := interpreterOf(path); got != want {
			t.Errorf("%q is for %q, want %q", text, got, want)
		}
	}
}

func TestContainer(t *testing.T) {
	for _, c := range []struct{ variable, file, want string }{
		{"", "", ""}, {"KUBERNETES_SERVICE_HOST", "/.dockerenv", "Kubernetes"}, {"", "/.dockerenv", "Docker"},
		{"", "/run/.containerenv", "Podman"}, {"SINGULARITY_CONTAINER", "", "Apptainer"}, {"container", "", "x"},
	} {
		getenv := func(name string) string {
			if name == c.variable {
				return "x"
			}
			return ""
		}
		if got := container(getenv, func(path string) bool { return path == c.file }); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// A virtual environment and a system's Python have their packages in different folders.
func TestPythonPackages(t *testing.T) {
	root := fakeRoot(t, map[string]string{"/venv/lib/python3.12/site-packages/torch/x": "", "/usr/lib/python3/dist-packages/x": ""})
	for python, want := range map[string]string{"/venv/bin/python": "/venv/lib/python3.12/site-packages/x", "/usr/bin/python3.12": "/usr/lib/python3/dist-packages/x", "/usr/bin/perl": ""} {
		got := strings.Join(pythonPackages(filepath.Join(root, python)), " ")
		if want != "" {
			want = filepath.Join(root, want)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", python, got, want)
		}
	}
}

// The report follows from the checks.
func TestReport(t *testing.T) {
	for _, c := range []struct {
		checks []Check
		probed bool
		want   Outcome
		text   string
	}{
		{nil, true, Everything, "calls with arguments and callers, GPU work"},
		{nil, false, Part, "calls with callers, from CUPTI, GPU work; not arguments of calls"},
		{[]Check{{Name: checkCUPTI, Status: Less}}, true, Part, "calls with arguments and callers; not GPU work"},
		{[]Check{{Name: checkFolder, Status: Less}}, false, None, "neither calls nor GPU work"},
		{[]Check{{Name: checkGPUs, Status: Nothing, Found: "no GPU"}}, true, None, "gets nothing: no GPU"},
		{[]Check{{Name: checkModule, Status: Note}}, true, Everything, "everything"},
	} {
		r := (&examination{checks: c.checks, probed: c.probed}).report()
		if r.Outcome != c.want || !strings.Contains(r.Text, c.text) || (r.Outcome == None) != (r.Calls == FromNone) {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}
