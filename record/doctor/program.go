package doctor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/invoker"
)

const checkProgram = "program"

// A target is what a report is about.
type target struct {
	path    string   // the program's file, or that of its interpreter; "" for the machine as a whole
	mapped  []string // files that it has mapped, or would map when it starts
	search  []string // further files beside which libcupti is looked for
	env     []string
	process int // PID, 0 for a program
}

// machine is the target of a report about this machine: programs that the dynamic linker helps.
func machine(env []string) *target { return &target{env: env} }

// lookAtProgram finds the program and the libraries that it loads when it starts.
func (x *examination) lookAtProgram() (*target, error) {
	path, err := record.LookProgram(x.opts.Program)
	if err != nil {
		return nil, err
	}
	t := &target{path: path, env: x.opts.Env}
	found := path
	if interpreter := interpreterOf(path); interpreter != "" {
		if t.path, err = record.LookProgram(interpreter); err != nil {
			return nil, fmt.Errorf("%s is a script for %s: %w", path, interpreter, err)
		}
		found += ", a script for " + t.path
	}
	t.search = pythonPackages(t.path)
	c := Check{Name: checkProgram, Status: OK, Found: found}
	if status, why, remedy := obstacle(t.path); why != "" {
		c.Status, c.Found, c.Remedy = status, found+" "+why, remedy
	} else {
		t.mapped = append([]string{t.path}, t.libraries()...)
	}
	x.addCheck(c)
	return t, nil
}

// interpreterOf is the program that runs a script, "" if the file is no script.
func interpreterOf(path string) string {
	f, err := elfsym.OpenFile(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 512).ReadSlice('\n') // without a line end it is no script
	words := strings.Fields(string(bytes.TrimPrefix(line, []byte("#!"))))
	if !bytes.HasPrefix(line, []byte("#!")) || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return w
		}
	}
	return words[0]
}

// obstacle says why nothing can be recorded of a program, whatever else is there; why is "" if it can.
func obstacle(path string) (s Status, why, remedy string) {
	info, err := os.Stat(path)
	if err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		return Nothing, "runs with raised rights (setuid), and the dynamic linker keeps other libraries out of it",
			"record it as its owner, without the setuid bit"
	}
	const unknown = "cannot be examined: it is no ELF file that may be read"
	f, err := elfsym.OpenFile(path)
	if err != nil {
		return Note, unknown, ""
	}
	defer f.Close()
	machine, err := elfsym.Built(f)
	if err == nil && machine != host.Machine() {
		return Nothing, fmt.Sprintf("is built for another processor (%s)", machine), "record it on such a machine"
	}
	image, err := elfsym.Open(f)
	switch {
	case err != nil:
		return Note, unknown, ""
	case !image.Interpreted():
		return Nothing, "is linked statically, and cannot load libcuda", "link it dynamically; the CUDA runtime may be static"
	}
	return OK, "", ""
}

// pythonPackages are the folders of packages of a Python interpreter, as files in them: pip installs
// CUDA's libraries there.
func pythonPackages(interpreter string) []string {
	if !strings.HasPrefix(filepath.Base(interpreter), "python") {
		return nil
	}
	prefix := filepath.Dir(filepath.Dir(interpreter))
	var files []string
	for _, pattern := range []string{"lib*/python3*/site-packages", "local/lib/python3*/dist-packages",
		"lib/python3*/dist-packages"} {
		folders, _ := filepath.Glob(filepath.Join(prefix, pattern))
		for _, folder := range folders {
			files = append(files, folder+"/x")
		}
	}
	return files
}

// loaderPatience is the time that the dynamic linker gets to list libraries.
const loaderPatience = 20 * time.Second

// loaders are the dynamic linkers that are asked. The one that a program names may be anybody's.
var loaders = []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"}

// libraries lists the files of the libraries that a program would load when it starts, and of further
// ones that it would get under their names. The dynamic linker lists them, with the rights of the user
// who will run the program; it runs nothing of them.
func (t *target) libraries(further ...string) []string {
	program := t.path
	if program == "" {
		program = "/proc/self/exe" // static: it loads nothing itself
		if path, err := exec.LookPath("true"); err == nil {
			program = path
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), loaderPatience)
	defer cancel()
	for _, loader := range loaders {
		if unix.Access(loader, unix.X_OK) != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, loader, "--list", program)
		cmd.Env = t.env
		invoker.Find().Apply(cmd)
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+strings.Join(further, ":"))
		out, _ := cmd.Output() // it fails where a library is missing, and lists the others
		return parseList(out)
	}
	return nil
}

// parseList reads the paths in what the dynamic linker lists: "\tlibc.so.6 => /lib/libc.so.6 (0x7f...)".
func parseList(out []byte) []string {
	var files []string
	for line := range strings.Lines(string(out)) {
		_, path, ok := strings.Cut(line, " => ")
		end := strings.LastIndex(path, " (0x")
		if ok && end > 0 && filepath.IsAbs(path) {
			files = append(files, path[:end])
		}
	}
	return files
}
