# Stands in for Vivado: tclsh vivado.tcl RECORD SCRIPT runs SCRIPT with stand-ins of the commands that it uses.
# They write every call to RECORD, check that files are there and that steps come in a legal order, and fail as
# Vivado would. Any command that is not here is an error. VENDOR_FAIL names a command that fails; VENDOR_SLACK and
# VENDOR_HOLD give the slack in ns ("" : no path); VENDOR_KEPT "NAME VALUE" a property that a core changes.
lassign $argv record script
set record [open $record w]
array set state {project 0 verilog 0 cores {} generated {} synthesised {} done {} files {} xdc {} part {}}
array set properties {}
array set settings {VENDOR_FAIL "" VENDOR_SLACK 0.1 VENDOR_HOLD 0.01 VENDOR_KEPT ""}
foreach name [array names settings] {
  if {[info exists env($name)]} { set settings($name) $env($name) }
}

proc call {name arguments} {
  puts $::record [list $name {*}$arguments]
  flush $::record
  if {$name eq $::settings(VENDOR_FAIL)} { error "ERROR: \[$name\] failed" }
}

proc must {condition message} {
  if {!$condition} { error "stand-in: $message" }
}

# Options with a value, options without, and how many arguments else: {found options, rest}.
proc parse {name arguments valued flags least most} {
  set options {}
  set rest {}
  while {[llength $arguments]} {
    set arguments [lassign $arguments word]
    if {$word in $valued} {
      must [llength $arguments] "$name: $word without a value"
      set arguments [lassign $arguments value]
      dict set options $word $value
    } elseif {$word in $flags} {
      dict set options $word 1
    } else {
      must [expr {![string match -* $word]}] "$name: no option $word"
      lappend rest $word
    }
  }
  must [expr {[llength $rest] >= $least && [llength $rest] <= $most}] "$name: [llength $rest] arguments"
  return [list $options $rest]
}

proc readable {paths} {
  foreach path $paths {
    must [file isfile $path] "no file $path"
    must [expr {$path ni $::state(files)}] "$path twice"
    lappend ::state(files) $path
  }
}

proc after {step earlier} {
  must $::state(project) "$step before create_project"
  if {$earlier ne ""} { must [expr {$earlier in $::state(done)}] "$step before $earlier" }
  must [expr {$step ni $::state(done)}] "$step twice"
  lappend ::state(done) $step
}

proc create_project args {
  call create_project $args
  lassign [parse create_project $args {-part} {-in_memory -force} 0 2] options
  must [expr {!$::state(project)}] "create_project twice"
  set ::state(project) 1
  if {[dict exists $options -part]} { choose [dict get $options -part] }
}

proc choose {part} {
  must [regexp {^xc[a-z0-9]+-} $part] "no part $part"
  set ::state(part) $part
}

foreach object {current_project current_fileset} {
  proc $object {} "call $object {}; must \$::state(project) {$object before create_project}; return $object"
}

proc read_verilog args {
  call read_verilog $args
  lassign [parse read_verilog $args {-library} {-sv} 1 1] options rest
  must $::state(project) "read_verilog before create_project"
  readable [lindex $rest 0]
  set ::state(verilog) 1
}

proc read_xdc args {
  call read_xdc $args
  lassign [parse read_xdc $args {-ref -cells} {-unmanaged} 1 1] options rest
  must $::state(project) "read_xdc before create_project"
  readable [lindex $rest 0]
  lappend ::state(xdc) {*}[lindex $rest 0]
}

proc get_filesets args {
  call get_filesets $args
  must [expr {$args in {sources_1 constrs_1}}] "no fileset $args"
  return $args
}

proc get_files args {
  call get_files $args
  set found {}
  foreach path $::state(xdc) {
    if {[file tail $path] in [lindex $args 0]} { lappend found $path }
  }
  must [llength $found] "get_files: [lindex $args 0] was not read"
  return $found
}

proc create_ip args {
  call create_ip $args
  lassign [parse create_ip $args {-name -vendor -library -version -module_name -dir} {} 0 0] options
  must $::state(project) "create_ip before create_project"
  must [expr {"synth_design" ni $::state(done)}] "create_ip after synth_design"
  if {[dict exists $options -dir]} {
    must [file isdirectory [dict get $options -dir]] "no directory [dict get $options -dir]"
  }
  must [expr {[dict get $options -name] in {aurora_64b66b xdma}}] "no core [dict get $options -name]"
  set module [dict get $options -module_name]
  must [expr {$module ni $::state(cores)}] "core $module twice"
  lappend ::state(cores) $module
}

proc get_ips args {
  call get_ips $args
  must [expr {[lindex $args 0] in $::state(cores)}] "get_ips before create_ip: [lindex $args 0]"
  return [lindex $args 0]
}

proc set_property args {
  call set_property $args
  lassign [parse set_property $args {-dict} {} 1 3] options rest
  set object [lindex $rest end]
  set values [expr {[dict exists $options -dict] ? [dict get $options -dict] : [lrange $rest 0 1]}]
  must [expr {[llength $values] % 2 == 0}] "set_property: a name without a value in $values"
  foreach {name value} $values {
    if {[string match CONFIG.* $name]} {
      must [expr {$object in $::state(cores) && $object ni $::state(generated)}] "$name of $object, no core to be generated"
      lassign $::settings(VENDOR_KEPT) changed other
      if {$name eq "CONFIG.$changed"} { set value $other }
    }
    if {$name eq "part" && $object eq "current_project"} { choose $value }
    set ::properties($object,$name) $value
  }
}

proc get_property args {
  call get_property $args
  lassign $args name object
  if {$name eq "SLACK"} { return $object }
  must [info exists ::properties($object,$name)] "get_property: $object has no $name"
  return $::properties($object,$name)
}

proc generate_target args {
  call generate_target $args
  lassign [parse generate_target $args {} {-force} 2 2] options rest
  must [expr {[lindex $rest 1] in $::state(cores)}] "generate_target before create_ip"
  lappend ::state(generated) [lindex $rest 1]
}

proc synth_ip args {
  call synth_ip $args
  must [expr {[lindex $args 0] in $::state(generated)}] "synth_ip before generate_target"
  lappend ::state(synthesised) [lindex $args 0]
}

proc synth_design args {
  call synth_design $args
  lassign [parse synth_design $args {-top -part -mode} {} 0 0] options
  after synth_design ""
  must $::state(verilog) "synth_design without sources"
  must [expr {[dict get $options -part] eq $::state(part)}] "synth_design for another part"
  must [expr {[lsort $::state(cores)] eq [lsort $::state(synthesised)]}] "synth_design before synth_ip of all cores"
  must [expr {$::state(xdc) ne ""}] "synth_design without constraints"
}

foreach {step earlier} {
  opt_design synth_design
  place_design opt_design
  phys_opt_design place_design
  route_design phys_opt_design
} {
  proc $step args "call $step \$args; parse $step \$args {-directive} {} 0 0; after $step $earlier"
}

proc written {step earlier arguments flags} {
  call $step $arguments
  lassign [parse $step $arguments {-file} $flags 0 1] options rest
  must [expr {$earlier in $::state(done)}] "$step before $earlier"
  set path [expr {[dict exists $options -file] ? [dict get $options -file] : [lindex $rest 0]}]
  set file [open $path w]
  puts $file $step
  close $file
}

proc report_utilization args { written report_utilization synth_design $args {} }
proc report_timing_summary args { written report_timing_summary route_design $args {} }
proc report_cdc args { written report_cdc route_design $args {} }
proc write_checkpoint args { written write_checkpoint route_design $args {-force} }

proc get_timing_paths args {
  call get_timing_paths $args
  lassign [parse get_timing_paths $args {-delay_type -max_paths -nworst} {} 0 0] options
  must [expr {"route_design" in $::state(done)}] "get_timing_paths before route_design"
  return [expr {[dict get $options -delay_type] eq "max" ? $::settings(VENDOR_SLACK) : $::settings(VENDOR_HOLD)}]
}

proc write_bitstream args {
  # Fails, if it does, with the file half written.
  lassign [parse write_bitstream $args {} {-force} 1 1] options rest
  must [string match *.bit [lindex $rest 0]] "write_bitstream to [lindex $rest 0]"
  set file [open [lindex $rest 0] w]
  puts $file half
  close $file
  call write_bitstream $args
  must [expr {"route_design" in $::state(done)}] "write_bitstream before route_design"
}

# Packaging of a component, in a project on disk.
proc add_files args {
  call add_files $args
  lassign [parse add_files $args {-fileset} {-norecurse} 1 1] options rest
  must $::state(project) "add_files before create_project"
  readable [lindex $rest 0]
  set ::state(verilog) 1
}

proc update_compile_order args {
  call update_compile_order $args
  parse update_compile_order $args {-fileset} {} 0 0
  must $::state(verilog) "update_compile_order without sources"
}

namespace eval ipx {
  proc package_project args {
    call ipx::package_project $args
    lassign [parse ipx::package_project $args {-root_dir -vendor -library -taxonomy -set_current} {-import_files} 0 0] options
    after ipx::package_project ""
    must $::state(verilog) "ipx::package_project without sources"
    must [info exists ::properties(current_fileset,top)] "ipx::package_project without a top"
    set ::state(root) [dict get $options -root_dir]
    must [file isdirectory $::state(root)] "no directory $::state(root)"
  }

  proc current_core {} {
    call ipx::current_core {}
    must [expr {"ipx::package_project" in $::state(done)}] "ipx::current_core before ipx::package_project"
    return current_core
  }

  foreach {step earlier} {
    create_xgui_files package_project
    update_checksums create_xgui_files
    check_integrity update_checksums
    save_core check_integrity
  } {
    proc $step core "
      call ipx::$step \$core
      must \[string equal \$core current_core] {ipx::$step of no core}
      after ipx::$step ipx::$earlier
      if {{$step} eq {save_core}} { close \[open \[file join \$::state(root) component.xml] w] }
    "
  }
}

proc close_project {} {
  call close_project {}
  must [expr {"ipx::save_core" in $::state(done)}] "close_project before ipx::save_core"
}

proc unknown args { error "stand-in: no command [lindex $args 0]" }

set argv0 $script
set argv {}
source $script
