//! Times a rung of the regression with each of its tiles: `cargo run --release --example regression_tiles -- POINTS RUNG...`.

use warpbook::prelude::*;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let points = arguments.next().and_then(|p| p.parse().ok()).unwrap_or(5_000_000);
    let wanted: Vec<String> = arguments.collect();
    let lab = Lab::new()?;
    let rungs = warpbook::kernels::regression::rungs();
    for rung in rungs.iter().filter(|r| wanted.is_empty() || wanted.iter().any(|w| *w == r.id)) {
        let Some(kernel) = rung.kernels().first() else { continue };
        for tile in &kernel.tiles {
            let run = lab.run(&Regression::new().points([points]).rungs([&*rung.id]).tile(&*tile.id).parts(false))?;
            for m in &run.measurements {
                let registers = m.kernels.first().map_or(0, |k| k.registers);
                println!(
                    "{points:>11} {:<18} {:<12} {:>10.1} us  mad {:>6.1}  wall {:>10.1}  {registers} registers  {:?} {:.1e}",
                    rung.id,
                    tile.id,
                    m.median_us().unwrap_or(f64::NAN),
                    m.mad_us().unwrap_or(f64::NAN),
                    m.median_wall_us().unwrap_or(f64::NAN),
                    m.outcome,
                    m.check.as_ref().map_or(f64::NAN, |c| c.max_rel_error),
                );
            }
        }
    }
    Ok(())
}
