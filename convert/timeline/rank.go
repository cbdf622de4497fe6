package timeline

import "github.com/cudatrace/cudatrace/record/ranks"

// A Rank is the place of a process among the processes of a distributed program.
type Rank = ranks.Rank
