package parquetsink_test

import (
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// The partition run is what --run says, else the run that 'cudatrace info' shows, else the log's name.
func TestRun(t *testing.T) {
	t.Parallel()
	const elastic = `process pid=1 environment="TORCHELASTIC_RUN_ID=first"` + "\n"
	const job = `meta key=environment value="SLURM_JOB_ID=77"` + "\n"
	for name, test := range map[string]struct{ log, asked, want string }{
		"the name that was asked for":  {"meta key=run value=mine\n" + elastic + job, "asked", "asked"},
		"the name of the recording":    {"meta key=run value=\"my run\"\n" + elastic + job, "", "my-run"},
		"the launcher's, of processes": {elastic + job, "", "first"},
		"the job's, of the recorder":   {job + "process pid=1\n", "", "77"},
		"several: the recorder's":      {job + elastic + `process pid=2 environment="TORCHELASTIC_RUN_ID=second"`, "", "77"},
		"torchrun was given no ID":     {`process pid=1 environment="TORCHELASTIC_RUN_ID=none"`, "", "rank0"},
		"nothing is known":             {"process pid=1\n", "", "rank0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "tables")
			write(t, out, test.asked, convert.Log{Name: "logs/rank0.cudatrace", Open: logtest.Assemble(t, test.log)})
			got := must.Get(filepath.Glob(filepath.Join(out, "runs", "*")))(t)
			goldentest.Same(t, []string{filepath.Join(out, "runs", "run="+test.want)}, got, "result")
		})
	}
}
