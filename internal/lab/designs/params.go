package designs

import "time"

// Params are what the simulated agents and their repository are like. They hold
// for all designs alike. [P1] and [P2] are the two published accounts of the system
// that this project follows, of January and February 2026, [T] is the history of
// 5,447 commits that it left, [M] was measured with git 2.39 on two cores, [A] is an
// assumption: nobody published a figure. `greenward lab designs --sweep` shows what
// half and twice of each assumption do.
type Params struct {
	Hours float64 `json:"hours"` // of virtual time a run; a quarter of it where agents are ten times as fast

	Task      time.Duration `json:"task"`        // median thinking a task; with TaskSigma the mean is 18 min: 300 agents make 1,000 commits an hour [P2]
	TaskSigma float64       `json:"task_sigma"`  // of the log-normal: some run far too long [P1]
	Turn      time.Duration `json:"turn"`        // one answer of a model with its tool calls [A]
	Check     time.Duration `json:"check"`       // build and test of the whole [A]
	Plan      time.Duration `json:"plan"`        // to look around and write a plan [A]
	PerPlan   int           `json:"per_planner"` // workers that one planner keeps busy; 20 to 100 tasks a plan [P2]

	Files    int     `json:"files"`     // [T]
	Lines    int     `json:"lines"`     // a file; with Hunk, 20 % of two edits to one file overlap [T]
	Hunk     int     `json:"hunk"`      // lines that one edit rewrites
	OneFile  float64 `json:"one_file"`  // share of changes that touch one file; the rest touch two or three [T]
	HotShift float64 `json:"hot_shift"` // file r is touched with weight (r+HotShift)^-HotPower: the ten hottest of 933 take
	HotPower float64 `json:"hot_power"` // 22 %, the fifty hottest 55 % [T]

	Bug     float64 `json:"bug"`     // a change breaks something: 7.9 % of commits did not even parse, most of them one after another; 2 % added conflict markers [T]
	Notice  float64 `json:"notice"`  // an agent that starts on a broken base mends it first [A]
	Mend    float64 `json:"mend"`    // thinking to mend or to settle a conflict, of a task's [A]
	Rework  float64 `json:"rework"`  // more thinking where a file of the task is broken [A]
	Tries   int     `json:"tries"`   // conflicts that an agent settles before it gives a task back [A]
	Churn   float64 `json:"churn"`   // without hierarchy: changes that serve no task, "long churn without progress" [P1, share A]
	Trample float64 `json:"trample"` // without hierarchy: takes up what another one has [P1, share A]
	KeepsIt float64 `json:"keeps"`   // a lock held while working: "held too long" [P1, share A]
	Forgets float64 `json:"forgets"` // a lock never given back [P1, share A]
	Stale   float64 `json:"stale"`   // minutes until somebody breaks such a lock [A]
	Dozes   float64 `json:"dozes"`   // an executor with all roles falls asleep after an action [P2, share A]
	Doze    float64 `json:"doze"`    // minutes [A]
	Stops   float64 `json:"stops"`   // an agent alone says early that it is done [P2, share A]
	Nudge   float64 `json:"nudge"`   // minutes until a person says "keep going" [A]

	Trio  time.Duration `json:"trio"`  // fetch, rebase, push by one: 31/s [M]
	Land  time.Duration `json:"land"`  // a landing on objects [M]
	Green time.Duration `json:"green"` // between two snapshots
	Slots int           `json:"slots"` // checks at once
}

// Default are the parameters as their sources give them.
func Default() Params {
	return Params{
		Hours: 4,
		Task:  11 * time.Minute, TaskSigma: 1, Turn: 20 * time.Second, Check: 5 * time.Minute, Plan: 10 * time.Minute, PerPlan: 20,
		Files: 933, Lines: 60, Hunk: 6, OneFile: 0.53, HotShift: 18.8, HotPower: 1.5,
		Bug: 0.02, Notice: 0.1, Mend: 0.3, Rework: 0.5, Tries: 3,
		Churn: 0.5, Trample: 0.1, KeepsIt: 0.25, Forgets: 0.05, Stale: 30, Dozes: 0.02, Doze: 10, Stops: 0.05, Nudge: 60,
		Trio: 32 * time.Millisecond, Land: 3 * time.Millisecond, Green: 10 * time.Minute, Slots: 8,
	}
}

// assumptions are the parameters that nobody published a figure for.
func assumptions() map[string]func(p *Params, by float64) {
	times := func(d *time.Duration, by float64) { *d = time.Duration(float64(*d) * by) }
	return map[string]func(*Params, float64){
		"turn":    func(p *Params, by float64) { times(&p.Turn, by) },
		"check":   func(p *Params, by float64) { times(&p.Check, by) },
		"plan":    func(p *Params, by float64) { times(&p.Plan, by) },
		"bug":     func(p *Params, by float64) { p.Bug *= by },
		"notice":  func(p *Params, by float64) { p.Notice *= by },
		"mend":    func(p *Params, by float64) { p.Mend *= by },
		"rework":  func(p *Params, by float64) { p.Rework *= by },
		"churn":   func(p *Params, by float64) { p.Churn = min(1, p.Churn*by) },
		"trample": func(p *Params, by float64) { p.Trample *= by },
		"keeps":   func(p *Params, by float64) { p.KeepsIt *= by },
		"forgets": func(p *Params, by float64) { p.Forgets *= by },
		"stale":   func(p *Params, by float64) { p.Stale *= by },
		"dozes":   func(p *Params, by float64) { p.Dozes *= by },
		"stops":   func(p *Params, by float64) { p.Stops *= by },
	}
}
