package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// oneOfAHash checks that the kernels of NCCL with one hash have one communicator in a trace, and those of one communicator one hash.
func oneOfAHash(t *testing.T, tr *tptest.Trace, hashes int) {
	t.Helper()
	const sql = `select distinct extract_arg(arg_set_id, 'communicator') as hash, extract_arg(arg_set_id, 'communicator_number') as number from gpu_slice
		where name not glob '*SendRecv*' and hash is not null`
	numbers, found := make(map[any]any), make(map[any]any)
	for _, r := range tr.Query(sql) {
		if numbers[r["hash"]] != nil || found[r["number"]] != nil || r["number"] == nil {
			t.Errorf("the kernels of %v are of communicator %v, too", r["hash"], r["number"])
		}
		numbers[r["hash"]], found[r["number"]] = r["number"], r["hash"]
	}
	if len(numbers) != hashes {
		t.Errorf("%d communicators, want %d: %v", len(numbers), hashes, numbers)
	}
}

// collectivesOf are the rows of the report on collectives: kernel, communicator and number of collectives.
func collectivesOf(t *testing.T, logs ...string) (rows []string) {
	t.Helper()
	out, err := exec.Command("cudatrace", append([]string{"stats", "--report", "collectives", "--format", "json"}, logs...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Collectives []struct {
			Name, Communicator string
			Count              uint64
		}
	}
	must.Do(t, json.Unmarshal(out, &all))
	for _, r := range all.Collectives {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.Name, "ncclDevKernel_"), "_")
		rows = append(rows, fmt.Sprint(name, " ", r.Communicator, " ", r.Count))
	}
	return rows
}

// The same of two ranks of the simulated stack. Of a group with calls of two communicators nothing tells whose kernels are whose.
func TestSharedCommunicators(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want []string
	}{
		{"-n 1 -s 20", []string{"AllReduce 0xccd1b5f98467a3b9 20", "AllReduce 0xfe0b4ef3716d7af0 23"}},
		{"-n 4 -s 17", []string{"AllReduce 0xccd1b5f98467a3b9 17", "AllReduce 0xfe0b4ef3716d7af0 29"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			rank := "RANK=%d WORLD_SIZE=2 " + sim("nccl") + " " + c.args
			r := recordProgram(t, "sh", "-c", fmt.Sprintf(rank+" & first=$!; "+rank+" && wait $first", 0, 1))
			if r.Unmatched != 0 || r.Kernels == 0 || !r.Complete {
				t.Errorf("%d kernels, %d without a call, %v", r.Kernels, r.Unmatched, r.Reasons)
			}
			got := collectivesOf(t, r.base+".cudatrace")
			for _, row := range c.want {
				if !strings.Contains(fmt.Sprintf("%q", got), fmt.Sprintf("%q", row)) {
					t.Errorf("collectives %q lack %q", got, row)
				}
			}
			tr := tptest.Open(t, r.base+".pftrace")
			tptest.NoErrors(t, tr)
			oneOfAHash(t, tr, 2)
		})
	}
}
