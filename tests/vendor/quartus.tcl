# Stands in for Quartus: tclsh quartus.tcl RECORD SCRIPT runs SCRIPT as quartus_sh does, with VENDOR_STA as
# quartus_sta, which is this file again with VENDOR_MODE sta. Calls are added to RECORD; files must be there, steps in
# a legal order, commands, options and assignments known. VENDOR_FAIL names a command that fails; VENDOR_SLACK and
# VENDOR_HOLD give slack in ns ("": no path).
lassign $argv record script
set record [open $record a]
array set state {open 0 done {} top "" device "" files {}}
array set settings {VENDOR_FAIL "" VENDOR_SLACK 0.1 VENDOR_HOLD 0.01 VENDOR_MODE sh VENDOR_BIN ""}
foreach name [array names settings] {
  if {[info exists env($name)]} { set settings($name) $env($name) }
}
array set quartus [list binpath $settings(VENDOR_BIN)]
package provide ::quartus::project 1.0
package provide ::quartus::[expr {$settings(VENDOR_MODE) eq "sta" ? "sta" : "flow"}] 1.0

proc call {name arguments} {
  puts $::record [list $name {*}$arguments]
  flush $::record
  if {$name eq $::settings(VENDOR_FAIL)} { error "Error: $name failed" }
}

proc must {condition message} {
  if {!$condition} { error "stand-in: $message" }
}

proc only {mode command} {
  must [string equal $::settings(VENDOR_MODE) $mode] "$command is not in quartus_$::settings(VENDOR_MODE)"
}

# Assignments of a settings file.
proc set_global_assignment args {
  call set_global_assignment $args
  must [expr {[llength $args] == 3 && [lindex $args 0] eq "-name"}] "set_global_assignment $args"
  lassign $args _ name value
  switch $name {
    FAMILY - PROJECT_OUTPUT_DIRECTORY - NUM_PARALLEL_PROCESSORS - TIMING_ANALYZER_MULTICORNER_ANALYSIS {}
    DEVICE { set ::state(device) $value }
    TOP_LEVEL_ENTITY { set ::state(top) $value }
    VERILOG_FILE - SDC_FILE {
      must [file isfile $value] "no file $value"
      must [expr {$value ni $::state(files)}] "$value twice"
      lappend ::state(files) $value
    }
    SOURCE_TCL_SCRIPT_FILE { uplevel #0 [list source $value] }
    default { error "stand-in: no assignment $name" }
  }
  if {$name eq "PROJECT_OUTPUT_DIRECTORY"} { set ::state(output) $value }
}

proc set_location_assignment args {
  call set_location_assignment $args
  must [expr {[llength $args] == 3 && [lindex $args 1] eq "-to"}] "set_location_assignment $args"
  must [regexp {^PIN_[A-Z]+[0-9]+$} [lindex $args 0]] "no pin [lindex $args 0]"
}

proc set_instance_assignment args {
  call set_instance_assignment $args
  must [expr {[lindex $args 0] eq "-name" && [lindex $args 1] in {IO_STANDARD WEAK_PULL_UP_RESISTOR}}] "set_instance_assignment $args"
}

proc project_open args {
  call project_open $args
  must [expr {[llength $args] == 3 && [lindex $args 0] eq "-revision"}] "project_open $args"
  must [expr {!$::state(open)}] "project_open twice"
  lassign $args _ revision project
  must [file isfile $project.qpf] "no $project.qpf"
  must [regexp "PROJECT_REVISION = \"$revision\"" [read [open $project.qpf]]] "$project.qpf has no revision $revision"
  uplevel #0 [list source $revision.qsf]
  must [expr {$::state(device) ne "" && $::state(top) ne ""}] "no device or no top"
  set ::state(open) 1
}

proc project_close {} {
  call project_close {}
  must $::state(open) "project_close before project_open"
  set ::state(open) 0
}

proc execute_flow args {
  only sh execute_flow
  must $::state(open) "execute_flow before project_open"
  must [string equal $args -compile] "execute_flow $args"
  file mkdir $::state(output)
  close [open [file join $::state(output) $::state(top).sof] w]
  call execute_flow $args
}

proc create_timing_netlist {} {
  call create_timing_netlist {}
  only sta create_timing_netlist
  must $::state(open) "create_timing_netlist before project_open"
  must [file isfile [file join $::state(output) $::state(top).sof]] "create_timing_netlist before compilation"
  lappend ::state(done) netlist
}

proc read_sdc {} {
  call read_sdc {}
  must [expr {"netlist" in $::state(done)}] "read_sdc before create_timing_netlist"
  lappend ::state(done) sdc
}

proc update_timing_netlist {} {
  call update_timing_netlist {}
  must [expr {"sdc" in $::state(done)}] "update_timing_netlist before read_sdc"
  lappend ::state(done) updated
}

proc get_available_operating_conditions {} { call get_available_operating_conditions {}; return {slow fast} }
proc set_operating_conditions corner {
  call set_operating_conditions $corner
  set ::state(done) [lsearch -all -inline -not -exact $::state(done) updated]
}

proc foreach_in_collection {name collection body} {
  uplevel 1 [list foreach $name $collection $body]
}

proc get_timing_paths args {
  call get_timing_paths $args
  must [expr {"updated" in $::state(done)}] "get_timing_paths before update_timing_netlist"
  must [regexp {^-(setup|hold|recovery|removal) -npaths 1$} $args] "get_timing_paths $args"
  return [expr {[lindex $args 0] in {-setup -recovery} ? $::settings(VENDOR_SLACK) : $::settings(VENDOR_HOLD)}]
}

proc get_path_info {path option} {
  must [string equal $option -slack] "get_path_info $option"
  return $path
}

proc unknown args { error "stand-in: no command [lindex $args 0]" }

set argv0 $script
set argv {}
source $script
