package sample

import (
	"fmt"
	"strings"
)

// job is one task of the demo and how the script does it. The files are what a
// worker writes, by path; an empty job edits instead.
type job struct {
	slug, title, intent string
	paths               []string
	acceptance          string
	files               map[string]string
	commits             []commit // own commits, made with the shell tool, in order
	edits               []commit // edits that are left to the harness to commit
	catalog             string   // a name to put at the end of the catalogue's list
	broken              bool     // it does not run the tests of what depends on it
}

// commit is one edit that a worker commits by itself.
type commit struct{ path, old, new, message string }

// first are the n tasks that the planner begins with, the bad one included.
func first(n int) []job {
	jobs := append(conversions(), sequences()...)
	jobs = append(jobs, shapes()...)
	jobs = append(jobs, helpers()...)
	jobs = append(jobs, listings()...)
	for i := len(jobs); i < n-1; i++ {
		jobs = append(jobs, conversion(fmt.Sprintf("Scale%d", i), float64(i), 2, float64(2*i)))
	}
	jobs = jobs[:n-1]
	// The bad one stands early, so that good work lands around it.
	return append(jobs[:3:3], append([]job{signature()}, jobs[3:]...)...)
}

// second are the tasks that the planner adds when it hears what green left out.
func second() []job {
	return []job{
		median(), again(), shape("RhombusArea", "p, q", "p * q / 2", "3, 4", "6"), sequence("Octahedral", "n * (2*n*n + 1) / 3", 3, 19),
		conversion("BarToPascal", 100000, 2, 200000), listing("stats.Median"),
	}
}

func conversions() []job {
	return []job{
		conversion("MetresToFeet", 3.25, 4, 13), conversion("InchesToCentimetres", 2.5, 2, 5), conversion("KilometresToMetres", 1000, 2, 2000),
		conversion("HoursToMinutes", 60, 2, 120), conversion("MinutesToSeconds", 60, 3, 180), conversion("DaysToHours", 24, 2, 48),
		conversion("WeeksToDays", 7, 3, 21), conversion("KilogramsToGrams", 1000, 3, 3000), conversion("TonnesToKilograms", 1000, 4, 4000),
		conversion("LitresToMillilitres", 1000, 5, 5000), conversion("DozensToPieces", 12, 2, 24), conversion("YardsToFeet", 3, 5, 15),
		conversion("FathomsToFeet", 6, 2, 12), conversion("QuartersToMonths", 3, 4, 12), conversion("ReamsToSheets", 500, 2, 1000),
	}
}

func conversion(name string, factor, in, out float64) job {
	file := "conv/" + strings.ToLower(name)
	return job{
		slug: "conv-" + strings.ToLower(name), title: "Add conv." + name, paths: []string{"conv/**"}, acceptance: "go build ./conv",
		intent: fmt.Sprintf("%s multiplies by %v. One file, one test, no other change.", name, factor),
		files: map[string]string{
			file + ".go":      fmt.Sprintf("package conv\n\n// %s multiplies x by %v.\nfunc %s(x float64) float64 { return x * %v }\n", name, factor, name, factor),
			file + "_test.go": fmt.Sprintf("package conv\n\nimport \"testing\"\n\nfunc Test%s(t *testing.T) {\n\tif got := %s(%v); got != %v {\n\t\tt.Errorf(\"got %%v, want %v\", got)\n\t}\n}\n", name, name, in, out, out),
		},
	}
}

func sequences() []job {
	return []job{
		sequence("Triangular", "n * (n + 1) / 2", 4, 10), sequence("Square", "n * n", 5, 25), sequence("Cube", "n * n * n", 3, 27),
		sequence("Pronic", "n * (n + 1)", 4, 20), sequence("Pentagonal", "n * (3*n - 1) / 2", 4, 22), sequence("Hexagonal", "n * (2*n - 1)", 4, 28),
		sequence("CentredSquare", "2*n*(n-1) + 1", 3, 13),
	}
}

func sequence(name, formula string, n, want int) job {
	file := "seq/" + strings.ToLower(name)
	return job{
		slug: "seq-" + strings.ToLower(name), title: "Add seq." + name, paths: []string{"seq/**"}, acceptance: "go build ./seq",
		intent: fmt.Sprintf("The n-th number is %s. One file, one test, no other change.", formula),
		files: map[string]string{
			file + ".go":      fmt.Sprintf("package seq\n\n// %s is the n-th number of that name.\nfunc %s(n int) int { return %s }\n", name, name, formula),
			file + "_test.go": fmt.Sprintf("package seq\n\nimport \"testing\"\n\nfunc Test%s(t *testing.T) {\n\tif got := %s(%d); got != %d {\n\t\tt.Errorf(\"got %%d, want %d\", got)\n\t}\n}\n", name, name, n, want, want),
		},
	}
}

func shapes() []job {
	return []job{
		shape("RectangleArea", "a, b", "a * b", "2, 3", "6"), shape("TriangleArea", "a, h", "a * h / 2", "4, 3", "6"),
		shape("SquarePerimeter", "a", "4 * a", "3", "12"), shape("RectanglePerimeter", "a, b", "2 * (a + b)", "2, 3", "10"),
		shape("TrapeziumArea", "a, b, h", "(a + b) / 2 * h", "1, 3, 2", "4"),
	}
}

func shape(name, args, formula, in, want string) job {
	file := "geom/" + strings.ToLower(name)
	return job{
		slug: "geom-" + strings.ToLower(name), title: "Add geom." + name, paths: []string{"geom/**"}, acceptance: "go test ./geom",
		intent: fmt.Sprintf("It is %s. One file, one test, no other change.", formula),
		files: map[string]string{
			file + ".go":      fmt.Sprintf("package geom\n\n// %s is %s.\nfunc %s(%s float64) float64 { return %s }\n", name, formula, name, args, formula),
			file + "_test.go": fmt.Sprintf("package geom\n\nimport \"testing\"\n\nfunc Test%s(t *testing.T) {\n\tif got := %s(%s); got != %s {\n\t\tt.Errorf(\"got %%v, want %s\", got)\n\t}\n}\n", name, name, in, want, want),
		},
	}
}

func helpers() []job {
	helper := func(name, signature, body, call, want string) job {
		file := "text/" + strings.ToLower(name)
		return job{
			slug: "text-" + strings.ToLower(name), title: "Add text." + name, paths: []string{"text/**"}, acceptance: "go build ./text",
			intent: "One file, one test, no other change.",
			files: map[string]string{
				file + ".go":      fmt.Sprintf("package text\n\nimport \"strings\"\n\n// %s is what its name says.\nfunc %s%s {\n%s}\n", name, name, signature, body),
				file + "_test.go": fmt.Sprintf("package text\n\nimport \"testing\"\n\nfunc Test%s(t *testing.T) {\n\tif got := %s; got != %s {\n\t\tt.Errorf(\"got %%v\", got)\n\t}\n}\n", name, call, want),
			},
		}
	}
	return []job{
		helper("Words", "(s string) int", "\treturn len(strings.Fields(s))\n", `Words("a b  c")`, "3"),
		helper("Shout", "(s string) string", "\treturn strings.ToUpper(s) + \"!\"\n", `Shout("hi")`, `"HI!"`),
		helper("Squeeze", "(s string) string", "\treturn strings.Join(strings.Fields(s), \" \")\n", `Squeeze(" a  b ")`, `"a b"`),
	}
}

// listings all put a line at the same place, so that some of them meet.
func listings() []job {
	var jobs []job
	for _, name := range []string{"conv.MetresToFeet", "seq.Triangular", "geom.RectangleArea", "text.Words"} {
		jobs = append(jobs, listing(name))
	}
	return jobs
}

func listing(name string) job {
	return job{
		slug: "list-" + strings.ToLower(strings.ReplaceAll(name, ".", "-")), title: "List " + name + " in the catalogue", paths: []string{"catalog/**"},
		acceptance: "go build ./catalog", intent: "One line at the end of the list in catalog/catalog.go.", catalog: name,
	}
}

// signature changes a function that another package calls, and looks only at
// its own package: every check of its own passes, and main breaks.
func signature() job {
	return job{
		slug: "text-pad-filler", title: "Let text.Pad take the filler", paths: []string{"text/**"}, acceptance: "go build ./text", broken: true,
		intent: "Pad gets a third argument, the string that fills.",
		commits: []commit{{
			path: "text/text.go", message: "text: Pad takes the filler",
			old: "// Pad puts blanks before s until it is width bytes long.\nfunc Pad(s string, width int) string {\n\tfor len(s) < width {\n\t\ts = \" \" + s\n",
			new: "// Pad puts filler before s until it is width bytes long.\nfunc Pad(s string, width int, filler string) string {\n\tfor len(s) < width {\n\t\ts = filler + s\n",
		}},
	}
}

// again does what signature should have done, callers included.
func again() job {
	j := signature()
	j.slug, j.title, j.broken = "text-pad-filler-and-callers", "Let text.Pad take the filler, and mend its callers", false
	j.paths, j.acceptance = []string{"text/**", "report/**"}, "go build ./text ./report"
	pad := j.commits[0]
	pad.new = strings.Replace(pad.new, "// Pad puts filler before s until it is width bytes long.", "// Pad puts filler before s until it is width bytes long; callers say which.", 1)
	caller := commit{path: "report/report.go", old: "text.Pad(name, 8)", new: "text.Pad(name, 8, \" \")"}
	j.edits, j.commits = []commit{pad, caller}, nil // one commit: main does not break in between
	return j
}

// median breaks Mean in its first commit and builds on the broken lines in its
// second, so that the first cannot be reverted alone: only mending forward helps.
func median() job {
	return job{
		slug: "stats-single-pass", title: "Make stats.Mean a single pass", paths: []string{"stats/**"}, acceptance: "go build ./stats", broken: true,
		intent: "Mean without a second variable for the sum, then a name for the count.",
		commits: []commit{
			{
				path: "stats/stats.go", message: "stats: a running mean",
				old: "\tsum := 0.0\n\tfor _, x := range xs {\n\t\tsum += x\n\t}\n\treturn sum / float64(len(xs))\n",
				new: "\tmean := 0.0\n\tfor i, x := range xs {\n\t\tmean += (x - mean) / float64(i+2)\n\t}\n\treturn mean\n",
			},
			{
				path: "stats/stats.go", message: "stats: name the count",
				old: "\tfor i, x := range xs {\n\t\tmean += (x - mean) / float64(i+2)\n",
				new: "\tfor i, x := range xs {\n\t\tcount := float64(i + 2)\n\t\tmean += (x - mean) / count\n",
			},
		},
	}
}

// mended is what the fixup agent does about median.
func mended() commit {
	return commit{path: "stats/stats.go", old: "count := float64(i + 2)", new: "count := float64(i + 1)"}
}
