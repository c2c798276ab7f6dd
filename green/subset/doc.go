// Package subset owns the construction of a tree that passes from a line of which some
// commits are bad: which prefixes to test without which commits, and which commits make
// another one fail. It is pure but for the function that answers; who makes trees and
// runs checks is green's business.
//
// Split is group testing along the line: it accepts stretches that pass on top of what
// was accepted before, and cuts those that fail where the first bad commit lies as
// likely before as after the cut (nested testing after Hwang and after Sobel and Groll).
// Search plans rounds of trials at the same time, by what is believed of every commit;
// Wide is a construction by it, and a stream of commits is followed by it in the lab.
// Partners is QuickXplain: the smallest set of accepted commits with which one fails.
package subset
