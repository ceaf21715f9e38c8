# Reads constraints as Vivado does: tclsh xdc.tcl RECORD FILE... writes every constraint to RECORD, as a list with the
# names of its objects in place. Commands that XDC has not are errors.
set files [lassign $argv record]
set record [open $record w]
foreach name {set_property create_clock set_false_path set_max_delay} {
  proc $name args "puts \$::record \[list $name {*}\$args\]"
}
foreach name {get_ports get_pins} { proc $name names "return \[list $name \$names\]" }
proc get_clocks args {
  if {[lindex $args 0] ne "-of_objects" || [llength $args] != 2} { error "get_clocks $args" }
  return [list get_clocks {*}[lindex $args 1]]
}
proc current_design {} { return current_design }
proc unknown args { error "no command [lindex $args 0]" }
foreach file $files { source $file }
close $record
